"""``python -m vgg_kernels``: one command per module of ``vgg_kernels.cli``."""

import importlib
import pkgutil
import sys
from types import ModuleType

import typer
from rich.console import Console
from rich.markup import escape

from . import cli
from .cli import dev


def build() -> typer.Typer:
    """The command line: a module of ``vgg_kernels.cli`` with a ``command`` function is a command of its name.

    A module with an ``app`` (a ``typer.Typer``) has sub-commands; those of ``cli.dev`` are the group ``dev``.
    """
    root = _group(cli, "VGG19 on Hopper: floor, kernels, evidence.")
    root.add_typer(_group(dev, "For maintainers: make the stored tables and pages anew."), name="dev")
    return root


def _group(package: ModuleType, text: str) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=text)
    group.callback()(lambda: None)  # keeps sub-command names even while only one command exists
    for name in sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.ispkg):
        module = importlib.import_module(f"{package.__name__}.{name}")
        if hasattr(module, "command"):
            group.command(name.replace("_", "-"))(module.command)
        elif hasattr(module, "app"):
            group.add_typer(module.app, name=name)
    return group


def main() -> None:
    """Run the command line; a ``ValueError`` is the user's to mend, so it prints as one line, exit status 2."""
    try:
        build()()
    except ValueError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
