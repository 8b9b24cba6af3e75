"""Widgets for a live notebook: choose a card, a tier, a batch or a tile, and see what follows.

A stored notebook keeps no widget: the figure beside each shows the same picture for the default choice. Each widget
calls one ``show_`` function, which prints a line and draws a figure.
"""

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import display
from matplotlib.figure import Figure

from ..floor.hardware import devices
from ..workload.network import Network
from ..workload.precision import TIERS
from .accuracy import pareto_rows
from .floors import ceilings, roofline_rows
from .plots.accuracy import pareto
from .plots.floor import roofline
from .plots.prediction import layers
from .predictions import BATCHES, layer_rows, tile_rows, with_tile

AS_CHOSEN = ""  # the tile that the layer runs with


def show_floor(network: Network, device: str, tier: str, batch: int) -> None:
    """Print the floor and what HBM binds of it; draw the roofline."""
    rows = roofline_rows(network, (tier,), device, batch)
    total = rows["floor_us"].sum()
    bound = rows[rows["bound"] == "hbm"]
    print(f"floor {total:.0f} µs (derived), {bound['floor_us'].sum() / total:.0%} of it bound by HBM: "
          f"{', '.join(bound['layer'])}")  # fmt: skip
    _draw(roofline(rows, ceilings((tier,), device)))


def show_prediction(
    network: Network, device: str, tier: str, batch: int, layer: str = "", tile: str = AS_CHOSEN
) -> None:
    """Print predicted time, floor and what binds; draw the layers, ``layer`` of them under another ``tile``.

    A tile that is not among ``tile_rows`` is passed over: between two menus the choice of the one before may linger.
    """
    rows = layer_rows(network, tier, device, batch)
    if tile != AS_CHOSEN:
        tiles = tile_rows(network, layer, tier, device, batch)
        rows = with_tile(rows, layer, tiles, tile) if tile in set(tiles["tile"]) else rows
    total = rows["time_us"].sum()
    shares = rows.groupby("bound")["time_us"].sum().sort_values(ascending=False) / total
    binding = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    print(f"{total:.0f} µs (modelled), floor {rows['floor_us'].sum():.0f} µs (derived); what binds, by time: {binding}")
    _draw(layers(rows))


def show_accuracy(errors: pd.DataFrame, reported: pd.DataFrame, network: Network, device: str, batch: int) -> None:
    """Draw accuracy against time for one card and batch."""
    _draw(pareto(pareto_rows(errors, reported, network, (device,), batch)))


def _draw(figure: Figure) -> None:
    display(figure)
    plt.close(figure)


def _device(chosen: str) -> widgets.Dropdown:
    return widgets.Dropdown(
        options={card.title: key for key, card in devices().items()}, value=chosen, description="device"
    )


def _tier(chosen: str) -> widgets.Dropdown:
    return widgets.Dropdown(options=list(TIERS), value=chosen, description="tier")


def _batch(chosen: int) -> widgets.SelectionSlider:
    return widgets.SelectionSlider(options=BATCHES, value=chosen, description="batch")


def floor_explorer(network: Network, device: str, tier: str, batch: int) -> widgets.interactive:
    """Choose device, tier and batch of the floor; the arguments are what it starts from."""
    return widgets.interactive(
        show_floor, network=widgets.fixed(network), device=_device(device), tier=_tier(tier), batch=_batch(batch)
    )


def accuracy_explorer(
    errors: pd.DataFrame, reported: pd.DataFrame, network: Network, device: str, batch: int
) -> widgets.interactive:
    """Choose device and batch of accuracy against time; the arguments are what it starts from."""
    fixed = {"errors": errors, "reported": reported, "network": network}
    return widgets.interactive(
        show_accuracy,
        **{name: widgets.fixed(value) for name, value in fixed.items()},
        device=_device(device),
        batch=_batch(batch),
    )


def prediction_explorer(network: Network, device: str, tier: str, batch: int) -> widgets.interactive:
    """Choose device, tier and batch of the prediction, and the tile of one layer; the arguments are the start.

    The menu of tiles holds the model's best for that layer, device, tier and batch, fastest first.
    """
    layer = widgets.Dropdown(options=[row.name for row in network.layers[1:]], description="layer")
    tile = widgets.Dropdown(options={"as chosen": AS_CHOSEN}, description="its tile", layout={"width": "34em"})
    whole = widgets.interactive(
        show_prediction, network=widgets.fixed(network), device=_device(device), tier=_tier(tier), batch=_batch(batch),
        layer=layer, tile=tile,
    )  # fmt: skip

    def refill(_: object = None) -> None:
        *chosen, _ = (child.value for child in whole.children[:-1])
        device, tier, batch, name = chosen
        rows = tile_rows(network, name, tier, device, batch)
        found = {f"{row.tile}: {row.time_us:.1f} µs, {row.bound}": row.tile for row in rows.itertuples()}
        tile.options = {"as chosen": AS_CHOSEN, **found}

    for child in whole.children[:-2]:
        child.observe(refill, "value")
    refill()
    return whole
