"""The precision ladder at full size: every tier's error behind every layer, and how far each layer sees its input.

And what fp16x3's error becomes where tensor cores truncate the sums that they keep (``truncation.py``).

The tiers are emulated (``emulation.py``), so it needs minutes and no GPU; what our kernels make of the same arithmetic
is ``verify``'s to say.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..workload.inputs import draw
from ..workload.network import Network
from ..workload.precision import TIERS
from ..workload.reference import activations, relative_error
from ..workload.weights import KERNELBENCH_SEED, reference
from .emulation import Emulation
from .error_bounds import error_bounds, predicted_errors, reference_fp64
from .images import REAL_KINDS, mixed
from .kernelbench import FIRST_TOLERANCE, TOLERANCE
from .sensitivity import elementwise
from .suite import strict_fp32
from .truncation import STEP, Truncating

EAGER = "eager fp32"
NEAREST = "rounded to nearest"
COMPARED = ("kernelbench", "kaiming")  # weights
KEPT = {"truncated, 32 at a time": STEP // 2, "truncated, 64 at a time": STEP, "truncated, all": 0}  # products inside


def _worst(got: Tensor, want: Tensor) -> int:
    return int(((got.double() - want).flatten(1).norm(dim=1) / want.flatten(1).norm(dim=1)).argmax())


def error_rows(network: Network, batch: int, seed: int, progress: Callable[[str], None]) -> list[dict]:
    """Kaiming weights: by arithmetic and layer, the worst image's relative error in norm, expected and accepted.

    ``expected`` is the derivation of ``budget.py`` before its margin; eager fp32 has none, its order of summation is
    the library's.
    """
    model, x = reference(network, "kaiming", seed), mixed(network, batch, seed)
    progress("float64 oracle")
    oracle = reference_fp64(model, x)
    rows = []
    for name in (EAGER, *TIERS):
        progress(name)
        with strict_fp32():
            trace = activations(model, network, x, torch.float32) if name == EAGER else Emulation(model, name).trace(x)
        tier = TIERS["fp32" if name == EAGER else name]
        expected = predicted_errors(network, tier, oracle.damping)
        accepted = error_bounds(network, tier, oracle.damping)
        for depth, (layer, want) in enumerate(oracle.outputs.items(), start=1):
            image = _worst(trace[layer], want)
            error = (trace[layer][image].double() - want[image]).norm() / want[image].norm()
            rows.append(
                {
                    "arithmetic": name,
                    "tier": tier.name,
                    "layer": layer,
                    "depth": depth,
                    "relative_error": float(error),
                    "expected": None if name == EAGER else float(expected[layer][image]),
                    "budget": None if name == EAGER else float(accepted[layer][image]),
                }
            )
    return rows


def truncation_rows(network: Network, seed: int, progress: Callable[[str], None]) -> list[dict]:
    """One image, Kaiming weights: fp16x3's error by layer where sums are kept in various ways, beside eager's."""
    model, x = reference(network, "kaiming", seed), mixed(network, 1, seed)
    oracle = reference_fp64(model, x)
    candidates = {NEAREST: Truncating(model, STEP, truncating=False)} | {
        name: Truncating(model, n) for name, n in KEPT.items()
    }
    with strict_fp32():
        traces = {EAGER: activations(model, network, x, torch.float32)}
    for name, candidate in candidates.items():
        progress(f"fp16x3, sums {name}")
        traces[name] = candidate.trace(x)
    return [
        {"sums": name, "layer": layer, "depth": depth, "relative_error": relative_error(trace[layer], want)}
        for name, trace in traces.items()
        for depth, (layer, want) in enumerate(oracle.outputs.items(), start=1)
    ]


def spread_rows(
    network: Network, batch: int, seed: int, progress: Callable[[str], None]
) -> tuple[list[dict], list[dict]]:
    """By weight scheme and layer, how far outputs differ between uniform images (float64), and what KernelBench sees.

    ``spread`` is the deviation over the batch and ``scale`` the output itself (both root mean squares), ``largest``
    the largest difference of one element between two images.
    """
    rows, certificates = [], []
    x = draw(network, batch, "uniform", seed)
    for scheme in COMPARED:
        progress(f"{scheme} weights")
        outputs = activations(reference(network, scheme, KERNELBENCH_SEED), network, x)
        for depth, (layer, y) in enumerate(outputs.items(), start=1):
            rows.append(
                {
                    "weights": scheme,
                    "layer": layer,
                    "depth": depth,
                    "spread": float((y - y.mean(0)).square().mean().sqrt()),
                    "scale": float(y.square().mean().sqrt()),
                    "largest": float((y.amax(0) - y.amin(0)).max()),
                }
            )
        logits = list(outputs.values())[-1]
        certificates += [
            elementwise(f"KernelBench {tolerance:g}", scheme, "uniform", logits, tolerance).document()
            for tolerance in (TOLERANCE, FIRST_TOLERANCE)
        ]
    return rows, certificates


@torch.no_grad()
def ladder(
    network: Network, *, batch: int = 3, seed: int = 0, progress: Callable[[str], None] = lambda text: None
) -> dict:
    """Errors, spreads and KernelBench's certificates of one network, JSON-able.

    Args:
        network: the network.
        batch: images; one of each real kind in turn for the errors, uniform ones for the spread.
        seed: of weights and images of the errors; the spread has KernelBench's seed.
        progress: called with what is being computed.
    """
    errors = error_rows(network, batch, seed, progress)
    truncation = truncation_rows(network, seed, progress)
    spread, certificates = spread_rows(network, batch, seed, progress)
    return {
        "network": network.name,
        "image": network.image,
        "batch": batch,
        "seed": seed,
        "inputs": [REAL_KINDS[i % len(REAL_KINDS)] for i in range(batch)],
        "errors": errors,
        "truncation": truncation,
        "spread": spread,
        "certificates": certificates,
    }
