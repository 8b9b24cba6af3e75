"""Every wrong network by name."""

from . import arithmetic, cheats, layers, outputs, state, tiers
from .base import WrongNetwork

WRONG_NETWORKS: dict[str, type[WrongNetwork]] = {
    kind.__name__: kind
    for module in (outputs, layers, arithmetic, tiers, state, cheats)
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == module.__name__ and not (kind.__doc__ or "").startswith("(")
}
