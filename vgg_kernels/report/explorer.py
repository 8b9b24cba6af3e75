"""Turn the prediction's three choices by hand: a widget over card, tier and batch, for a live notebook.

A stored notebook keeps no widget; the figure above the explorer shows the same picture for the default choice.
"""

import ipywidgets as widgets
import matplotlib.pyplot as plt
from IPython.display import display

from ..floor.hardware import devices
from ..workload.network import Network
from ..workload.precision import TIERS
from .plots.prediction import layers
from .predictions import BATCHES, layer_rows


def show(network: Network, device: str, tier: str, batch: int) -> None:
    """Draw the prediction by layer for one choice, its total above the figure."""
    rows = layer_rows(network, tier, device, batch)
    print(f"{rows['time_us'].sum():.0f} us modelled, {rows['floor_us'].sum():.0f} us floor (derived)")
    figure = layers(rows)
    display(figure)
    plt.close(figure)


def explorer(network: Network, device: str = "h100_sxm", tier: str = "fp16", batch: int = 10) -> widgets.interactive:
    """The widget: two menus and a slider, and the figure that follows them.

    Args:
        network: the layer table.
        device: the card to start from.
        tier: the tier to start from.
        batch: the batch to start from, one of ``BATCHES``.
    """
    return widgets.interactive(
        show,
        network=widgets.fixed(network),
        device=widgets.Dropdown(options={card.title: key for key, card in devices().items()}, value=device),
        tier=widgets.Dropdown(options=list(TIERS), value=tier),
        batch=widgets.SelectionSlider(options=BATCHES, value=batch),
    )
