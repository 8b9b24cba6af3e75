"""The workload as tidy rows: its layers, its identity."""

import pandas as pd

from ..workload.identity import IDENTITY, KERNELBENCH, PUBLIC_INDEX_PREFIX
from ..workload.network import Conv, Network


def layer_rows(network: Network, batch: int) -> pd.DataFrame:
    """One row a layer: shapes of one image, parameters, operations of the batch (derived)."""
    rows = [
        {
            "layer": layer.name,
            "input": "x".join(map(str, layer.input_shape)),
            "output": "x".join(map(str, layer.output_shape)),
            "pool": isinstance(layer, Conv) and layer.pooled,
            "parameters": layer.parameters,
            "gflop": layer.flops(batch) / 1e9,
        }
        for layer in network.layers
    ]
    return pd.DataFrame(rows).assign(evidence="derived")


def identity_rows() -> pd.DataFrame:
    """The three hashes in circulation: what each is over, and whether it can be recomputed."""
    return pd.DataFrame(
        [
            {"hash": IDENTITY[:12], "over": "our manifest, RFC 8785 canonical JSON", "recomputable": True},
            {
                "hash": KERNELBENCH.sha256[:12],
                "over": f"{KERNELBENCH.path} of {KERNELBENCH.date}",
                "recomputable": True,
            },
            {"hash": PUBLIC_INDEX_PREFIX, "over": "the public index's manifest, not public", "recomputable": False},
        ]
    )
