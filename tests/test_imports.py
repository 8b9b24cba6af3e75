"""The package's import graph: one way between folders, no circle inside one, and folders that stay small."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import vgg_kernels

PACKAGE = Path(vgg_kernels.__file__).parent
ORDER = ["workload", "floor", "kernels", "emulator", "predict", "correctness", "measure", "records", "report", "cli"]
MODULES = {
    ".".join(("vgg_kernels", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
FOLDERS = sorted({path.parent for path in MODULES.values()} - {PACKAGE})


def imported(module: str) -> set[str]:
    """The package's modules that ``module`` imports, inside functions too, but not for annotations alone."""
    path, found = MODULES[module], set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names = {f"{origin}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else origin for name in names}
    return found & set(MODULES) - {module}


GRAPH = {module: imported(module) for module in MODULES}


def folder(module: str) -> str:
    return module.split(".")[1] if module.count(".") else ""


def test_folders_are_imported_one_way():
    rank = {name: i for i, name in enumerate(ORDER)}
    backwards = [
        f"{module} -> {other}"
        for module, others in GRAPH.items()
        for other in others
        if folder(module) in rank and folder(other) in rank and rank[folder(other)] > rank[folder(module)]
    ]
    assert not backwards


def test_modules_are_imported_in_no_circle():
    """A package's ``__init__`` holds no code, so what it imports counts as any module's."""
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_folder_has_at_most_16_modules_and_says_what_it_is_for(path):
    modules = sorted(p.name for p in path.glob("*.py") if p.name != "__init__.py")
    assert len(modules) <= 16, modules
    assert ast.get_docstring(ast.parse((path / "__init__.py").read_text(encoding="utf-8")))
