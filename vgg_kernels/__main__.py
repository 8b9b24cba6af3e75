"""``python -m vgg_kernels``: one sub-command a module of ``vgg_kernels.cli``."""

import importlib
import pkgutil
import sys

import typer
from rich.console import Console
from rich.markup import escape

from . import cli


def build() -> typer.Typer:
    """The command line: a module of ``vgg_kernels.cli`` with a ``command`` function is a command of its name.

    A module with an ``app`` (a ``typer.Typer``) is a command that has sub-commands.
    """
    root = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="VGG19 on Hopper: floor, kernels, evidence.",
    )
    root.callback()(lambda: None)  # keeps sub-command names even while only one command exists
    for name in sorted(m.name for m in pkgutil.iter_modules(cli.__path__)):
        module = importlib.import_module(f"{cli.__name__}.{name}")
        if hasattr(module, "command"):
            root.command(name)(module.command)
        elif hasattr(module, "app"):
            root.add_typer(module.app, name=name)
    return root


def main() -> None:
    """Run the command line; a ``ValueError`` is the user's to mend, so it prints as one line, exit status 2."""
    try:
        build()()
    except ValueError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
