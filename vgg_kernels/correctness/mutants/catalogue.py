"""Every mutant by name."""

from . import arithmetic, cheats, layers, outputs, state
from .base import Mutant

MUTANTS: dict[str, type[Mutant]] = {
    kind.__name__: kind
    for module in (outputs, layers, arithmetic, state, cheats)
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == module.__name__ and not (kind.__doc__ or "").startswith("(")
}
