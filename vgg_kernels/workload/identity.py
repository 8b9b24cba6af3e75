"""The workload's identity: the SHA-256 of the RFC 8785 canonical JSON of its manifest.

The manifest says everything that a result must share to be comparable: the layers, the tensors that go in and come
out, and how the callable must behave. It is derived from the layer table, so a change there changes the identity.

Three hashes are in circulation, and they answer different questions:

* ``IDENTITY`` is ours, over ``manifest()``; anyone can recompute it with any RFC 8785 library.
* ``KERNELBENCH.sha256`` is that of KernelBench's problem file, byte for byte; ``sha256sum`` recomputes it from a
  clone. Its earlier revisions (``KERNELBENCH.earlier_inputs``) differ in the line that draws the input.
* ``PUBLIC_INDEX_PREFIX`` is how the identity begins that the public index prints for this workload. It is taken over a
  manifest of the index's own whose body is not public, so nobody outside can recompute it; we record it and no more.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .network import Conv, Layer, Network, network


@dataclass(frozen=True)
class Problem:
    """A problem file of KernelBench.

    Attributes:
        repository: its address.
        path: of the file within it.
        revision: at which ``sha256`` is that of the file.
        date: of that revision.
        sha256: of the file's bytes.
        batch: images that it draws.
        earlier_inputs: what earlier files called to draw them, by the file's SHA-256; nothing else differed.
    """

    repository: str
    path: str
    revision: str
    date: str
    sha256: str
    batch: int
    earlier_inputs: Mapping[str, str]


KERNELBENCH = Problem(
    repository="https://github.com/ScalingIntelligence/KernelBench",
    path="KernelBench/level3/12_VGG19.py",
    revision="423217d9fda91e0c2d67e4a43bf62f96f6d104f1",
    date="2026-03-05",
    sha256="688113e05dedf10a1881e549d86559e3cc5b32be1259e976bf98b020f503340e",
    batch=10,
    earlier_inputs=MappingProxyType(
        {
            "3669feb9039d7c1631babe17a6a23b8ae640b161c6c6e105b72642ce557dcfd1": "torch.randn, until 2025-07-17",
            "73e494c630e2281888827d4702987b2ec3290634fbe0df6ec69cf8fb39781ce7": "torch.rand_mix, until 2025-07-21",
        }
    ),
)
PUBLIC_INDEX_PREFIX = "b5c7d86e7d66"

# Pinned, so that a change of the manifest cannot pass unseen and a measuring machine needs no canonicaliser;
# a test recomputes it.
IDENTITY = "d3730570a2a508ae456a2864e4780e2960824eff37987042cbc720b29bb2c652"


def canonical(document: Any) -> bytes:
    """The RFC 8785 canonical JSON of ``document``: one byte string for one value, whoever writes it.

    Raises:
        ValueError: for what JSON cannot hold (NaN, integers past 2^53, keys that are no strings).
    """
    import rfc8785  # imported here: a measuring machine seals with the pinned identity and needs no canonicaliser

    try:
        return rfc8785.dumps(document)
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"no canonical JSON for this document: {error}") from error


def sha256(document: Any) -> str:
    """SHA-256 of the canonical JSON of ``document``, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(document)).hexdigest()


def _layer(layer: Layer) -> dict[str, object]:
    if isinstance(layer, Conv):
        return {
            "name": layer.name,
            "operation": "conv2d 3x3, stride 1, zero padding 1, bias, relu" + (", maxpool 2x2" if layer.pooled else ""),
            "weight": [layer.c_out, layer.c_in, 3, 3],
            "output": ["batch", *layer.output_shape],
        }
    return {
        "name": layer.name,
        "operation": "linear, bias" + (", relu" if layer.relu else ""),
        "weight": [layer.features_out, layer.features_in],
        "output": ["batch", *layer.output_shape],
    }


def manifest(of: Network | None = None) -> dict[str, Any]:
    """What a result must share to be comparable: JSON values, integers and strings only, no floating point.

    Args:
        of: the network; VGG19 at 224 x 224 with 1000 classes where None.
    """
    of = of or network("vgg19")
    return {
        "workload": f"{of.name} forward",
        "axes": {"batch": {"minimum": 1, "public_record": KERNELBENCH.batch}},
        "inputs": [
            {
                "name": "x",
                "dtype": "float32",
                "shape": ["batch", *of.convs[0].input_shape],
                "layout": "NCHW, contiguous",
                "drawn": "uniform on [0, 1), a fresh batch a call",
            }
        ],
        "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", of.classes]}],
        "layers": [_layer(layer) for layer in of.layers],
        "parameters": of.parameters,
        "parameter_dtype": "float32",
        "semantics": {
            "mutates_input": False,
            "mutates_parameters": False,
            "output_aliases_input": False,
            "output_survives_next_call": True,
            "dropout": "off",
            "nonfinite": "propagates to the images that hold it",
        },
    }
