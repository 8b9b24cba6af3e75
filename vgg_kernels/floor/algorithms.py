"""What each way of computing a 3x3 convolution costs: products, transforms and the weights it reads.

Sources: Winograd's minimal filtering as Lavin and Gray write it (arXiv:1509.09308); FFT convolution by overlapping
tiles (Vasilache et al., arXiv:1412.7580). Counts are derived below, not quoted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

from ..workload.network import TAPS, Conv

# Instructions of one 2-D transform of one tile of one channel (an FMA is one), counted on Lavin and Gray's matrices
# with common terms shared, rows then columns. F(2x2): 4 a vector. F(4x4): 12 a vector in, 10 a vector out.
WINOGRAD_INPUT = {2: 4 * (4 + 4), 4: 12 * (6 + 6)}
WINOGRAD_OUTPUT = {2: 4 * (4 + 2), 4: 10 * (6 + 4)}
FFT_TILES = (8, 16, 32, 64)


@dataclass(frozen=True)
class Cost:
    """One convolution over one batch, by one algorithm.

    Attributes:
        flops: operations of the products (a multiply and an add are two), what the tier's rate bounds.
        transform_instructions: instructions of the transforms on the FMA units, an FMA counted as one.
        weights: numbers of weights read, in the form in which the products need them.
        intermediates: numbers that cross HBM between transform and products, written and read (none where fused).
    """

    flops: float
    transform_instructions: float = 0
    weights: float = 0
    intermediates: float = 0


def direct(conv: Conv, batch: int) -> Cost:
    """Every product of the definition: ``2 * N * H * W * C_out * C_in * 9`` operations."""
    return Cost(conv.flops(batch), weights=TAPS * conv.c_in * conv.c_out)


def winograd(conv: Conv, batch: int, m: int, *, stored: bool) -> Cost:
    """Winograd's F(m x m, 3 x 3): ``(m + 2)^2`` products where the definition has ``9 m^2``, on ragged tiles too.

    Args:
        conv: the layer.
        batch: images.
        m: output pixels a tile's side, 2 or 4.
        stored: whether the transformed input and the products' output cross HBM, written and read, as they do where
            the transforms are kernels of their own, and the filters are read transformed; otherwise nothing but the
            layer's own input, output and filters crosses HBM.
    """
    tiles = batch * ceil(conv.height / m) * ceil(conv.width / m)
    points = (m + 2) ** 2
    between = 2 * tiles * points * (conv.c_in + conv.c_out)
    return Cost(
        flops=2 * tiles * points * conv.c_in * conv.c_out,
        transform_instructions=tiles * (WINOGRAD_INPUT[m] * conv.c_in + WINOGRAD_OUTPUT[m] * conv.c_out),
        weights=points * conv.c_in * conv.c_out if stored else TAPS * conv.c_in * conv.c_out,
        intermediates=between if stored else 0,
    )


def fft(conv: Conv, batch: int, tile: int) -> Cost:
    """Convolution in the frequency domain on ``tile`` x ``tile`` patches that overlap by two pixels.

    A real patch has ``tile * (tile / 2 + 1)`` complex frequencies; a complex product costs three real ones (Gauss),
    six operations with its adds. Weights are read as their spectra. The spectra of pixels and products cross HBM,
    written and read: those of one 16 x 16 patch of 512 channels in fp32 are 0.6 MB, more than an SM can hold.
    """
    outputs = tile - 2
    tiles = batch * ceil(conv.height / outputs) * ceil(conv.width / outputs)
    frequencies = tile * (tile // 2 + 1)
    transform = 2.5 * tile**2 * log2(tile**2) / 2  # half a complex transform's 5 n log2 n operations, real input
    return Cost(
        flops=6 * tiles * frequencies * conv.c_in * conv.c_out,
        transform_instructions=tiles * transform / 2 * (conv.c_in + conv.c_out),
        weights=2 * frequencies * conv.c_in * conv.c_out,
        intermediates=2 * 2 * tiles * frequencies * (conv.c_in + conv.c_out),
    )


# Each name stands for the costs to choose among: a floor takes whichever of them is least for the layer.
ALGORITHMS: dict[str, Callable[[Conv, int], tuple[Cost, ...]]] = {
    "direct": lambda conv, batch: (direct(conv, batch),),
    "winograd-2x2": lambda conv, batch: (winograd(conv, batch, 2, stored=False),),
    "winograd-4x4": lambda conv, batch: (winograd(conv, batch, 4, stored=False),),
    "winograd-2x2-stored": lambda conv, batch: (winograd(conv, batch, 2, stored=True),),
    "winograd-4x4-stored": lambda conv, batch: (winograd(conv, batch, 4, stored=True),),
    "fft": lambda conv, batch: tuple(fft(conv, batch, tile) for tile in FFT_TILES),
}
