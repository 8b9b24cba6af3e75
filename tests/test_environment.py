"""The environment is told four times (pyproject, constraints, environment.yml, CITATION): they agree."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import vgg_kernels
from vgg_kernels.report.study import root

ROOT = root()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIRED = [Requirement(text) for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]]
PINNED = {
    canonicalize_name(line.split("==")[0]): line.split("==")[1]
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
}
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())


def conda_versions():
    """Every package of environment.yml, conda's and pip's, with its version prefix."""
    conda = [line.split("=") for line in CONDA["dependencies"] if isinstance(line, str)]
    pip = [line.split("==") for line in CONDA["dependencies"][-1]["pip"]]
    return {line[0]: line[-1] if len(line) > 1 else "" for line in conda + pip}


@pytest.mark.parametrize("requirement", REQUIRED, ids=lambda requirement: requirement.name)
def test_the_pinned_version_is_one_that_pyproject_accepts(requirement):
    assert Version(PINNED[canonicalize_name(requirement.name)]) in requirement.specifier


@pytest.mark.parametrize("requirement", REQUIRED, ids=lambda requirement: requirement.name)
def test_environment_yml_has_the_version_that_constraints_pin(requirement):
    version = conda_versions()[requirement.name]
    pinned = PINNED[canonicalize_name(requirement.name)]
    assert version
    assert (pinned + ".").startswith(version + ".")


def test_environment_yml_names_nothing_else():
    expected = {requirement.name for requirement in REQUIRED}
    assert set(conda_versions()) == expected | {"python", "pip", "make"}


def test_environment_yml_is_portable():
    assert CONDA["channels"] == ["conda-forge"]
    assert list(CONDA["dependencies"][-1]) == ["pip"]
    assert all(line.count("=") <= 1 for line in CONDA["dependencies"] if isinstance(line, str))
    text = (ROOT / "environment.yml").read_text()
    assert "pip install -e ." in text
    assert "prefix:" not in text


def test_constraints_are_exact_and_free_of_local_builds():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in lines), lines


def test_python_and_package_versions_agree():
    assert Version(conda_versions()["python"]) >= Version(PROJECT["requires-python"].removeprefix(">="))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"] == vgg_kernels.__version__
    assert citation["license"] == PROJECT["license"] == "MIT"


def imported(folder):
    """Top-level names that the Python files of a folder import from outside."""
    names = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"vgg_kernels"}


@pytest.mark.parametrize(("folder", "extra"), [("vgg_kernels", False), ("tests", True)])
def test_what_is_imported_is_declared(folder, extra):
    texts = PROJECT["dependencies"] + (PROJECT["optional-dependencies"]["test"] if extra else [])
    declared = {canonicalize_name(Requirement(text).name) for text in texts}
    providers = packages_distributions()
    undeclared = {
        name for name in imported(folder) if not declared & set(map(canonicalize_name, providers.get(name, [name])))
    }
    assert undeclared == set()
