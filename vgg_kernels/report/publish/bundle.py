"""One self-contained Python source of chosen functions: what they need from this package, and nothing else.

Definitions are followed from the roots through the package's own imports, renamed where two modules share a name,
and written in the order in which Python needs them. Docstrings and comments stay behind in the package.
"""

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Key = tuple[str, str]  # module and name

PACKAGE = __package__.partition(".")[0]


@dataclass
class _Module:
    """A module's definitions by name, and what each imported name stands for."""

    name: str
    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    own: dict[str, Key] = field(default_factory=dict)  # local name -> definition in another module of the package
    siblings: dict[str, str] = field(default_factory=dict)  # local name -> module of the package
    external: dict[str, str] = field(default_factory=dict)  # local name -> import statement


def _read(name: str, replaced: Mapping[Key, str]) -> _Module:
    loaded = importlib.import_module(name)
    found = _Module(name)
    for node in ast.parse(inspect.getsource(loaded)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.definitions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found.definitions[target.id] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                found.external[local] = ast.unparse(ast.Import([alias]))
        elif isinstance(node, ast.ImportFrom):
            _read_import(found, node, loaded.__package__ or "")
    for (module, local), source in replaced.items():
        if module == name:
            found.definitions[local] = ast.parse(source).body[0]
    return found


def _read_import(found: _Module, node: ast.ImportFrom, package: str) -> None:
    origin = node.module or ""
    if node.level:
        origin = importlib.util.resolve_name("." * node.level + origin, package)
    for alias in node.names:
        local = alias.asname or alias.name
        if not origin.startswith(PACKAGE):
            found.external[local] = ast.unparse(ast.ImportFrom(node.module, [alias], 0))
        elif _is_package(origin):  # whose names are modules
            found.siblings[local] = f"{origin}.{alias.name}"
        else:
            found.own[local] = (origin, alias.name)


def _is_package(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


class _Rewriter(ast.NodeTransformer):
    """Renames global references inside one definition, and notes them; locals that shadow a global are left alone."""

    def __init__(self, bundle: "_Bundle", module: _Module):
        self.bundle, self.module = bundle, module
        self.shadows: list[set[str]] = []
        self.needs: list[Key] = []
        self.imports: set[str] = set()

    def _global(self, name: str) -> Key | None:
        if any(name in scope for scope in self.shadows):
            return None
        if name in self.module.definitions:
            return self.module.name, name
        if name in self.module.external:
            self.imports.add(self.module.external[name])
        return self.module.own.get(name)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        key = self._global(node.id) if isinstance(node.ctx, ast.Load) else None
        if key:
            self.needs.append(key)
            node.id = self.bundle.public(key)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Name) and not any(value.id in scope for scope in self.shadows):
            sibling = self.module.siblings.get(value.id)
            if sibling:
                key = sibling, node.attr
                self.needs.append(key)
                return ast.copy_location(ast.Name(self.bundle.public(key), node.ctx), node)
        self.generic_visit(node)
        return node

    def _function(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        given = node.args
        body: Sequence[ast.AST]
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [self.visit(d) for d in node.decorator_list]
            node.returns = None
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Return(None)]
            body = node.body
        else:
            body = [node.body]
        given.defaults = [self.visit(d) for d in given.defaults]
        given.kw_defaults = [d and self.visit(d) for d in given.kw_defaults]
        for argument in filter(None, every):
            if argument.annotation is not None and "constexpr" not in ast.unparse(argument.annotation):
                argument.annotation = None
            elif argument.annotation is not None:
                argument.annotation = self.visit(argument.annotation)
        self.shadows.append({a.arg for a in every if a} | _stored(body))
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = [self.visit(s) for s in node.body]
        self.shadows.pop()
        return node

    visit_FunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Expr(ast.Constant(...))]
        self.generic_visit(node)
        return node

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> ast.AST:
        self.shadows.append({n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)})
        self.generic_visit(node)
        self.shadows.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def _stored(body: Iterable[ast.AST]) -> set[str]:
    """The names that statements assign, nested scopes left out."""
    found: set[str] = set()
    todo = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            todo += ast.iter_child_nodes(node)
    return found


class _Bundle:
    """Follows definitions and writes each once, behind what it needs."""

    def __init__(self, replaced: Mapping[Key, str]):
        self.replaced = replaced
        self.modules: dict[str, _Module] = {}
        self.names: dict[str, Key] = {}
        self.done: set[tuple[str, int]] = set()
        self.imports: set[str] = set()
        self.sources: list[str] = []

    def module(self, name: str) -> _Module:
        if name not in self.modules:
            self.modules[name] = _read(name, self.replaced)
        return self.modules[name]

    def public(self, key: Key) -> str:
        module, name = key
        holder = self.names.setdefault(name, key)
        return name if holder == key else f"{module.rpartition('.')[2]}_{name.lstrip('_')}"

    def add(self, key: Key) -> None:
        module = self.module(key[0])
        if key[1] not in module.definitions:  # re-exported from elsewhere
            self.add(module.own[key[1]])
            return
        node = module.definitions[key[1]]
        if (key[0], id(node)) in self.done:
            return
        self.done.add((key[0], id(node)))
        rewriter = _Rewriter(self, module)
        node = rewriter.visit(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.name = self.public(key)
        else:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    target.id = self.public((key[0], target.id))
        for needed in dict.fromkeys(rewriter.needs):
            self.add(needed)
        self.imports |= rewriter.imports
        self.sources.append(ast.unparse(ast.fix_missing_locations(node)))


def bundle(roots: list[Key], replaced: Mapping[Key, str] | None = None) -> str:
    """Source text that defines the roots and all that they need of this package.

    Args:
        roots: (module, name) of what the file is for, in the order in which it should be defined.
        replaced: by (module, name), the source of one statement that stands in for the definition.
    """
    made = _Bundle(replaced or {})
    for root in roots:
        made.add(root)
    return "\n\n".join(["\n".join(sorted(made.imports)), *made.sources]) + "\n"
