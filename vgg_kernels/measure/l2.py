"""A kernel that only reads: operand tiles out of L2 by bulk tensor copies, as a main loop reads them.

The product that uses them is as small as wgmma allows (16 columns), so nothing but the reading can bind: at 128 bytes
of shared memory a clock an SM could take a tile of 16 KiB every 128 clocks.
"""

from torch import Tensor

from ..kernels import backend as backend  # decides, before triton is imported, whether kernels are interpreted

import triton  # isort: skip
import triton.language as tl  # isort: skip
from triton.tools.tensor_descriptor import TensorDescriptor  # isort: skip

FEWEST_COLUMNS = 16
STAGES = 4


@triton.jit
def _read_tiles(
    tiles, weights, out, count, passes, ROWS: tl.constexpr, DEPTH: tl.constexpr, N: tl.constexpr, STAGES: tl.constexpr
):
    program = tl.program_id(0)
    column, depth = tl.arange(0, N), tl.arange(0, DEPTH)
    w = tl.load(weights + depth[:, None] * N + column[None, :])
    total = tl.zeros([ROWS, N], tl.float32)
    for i in tl.range(0, passes, num_stages=STAGES):
        tile = (program + i) % count  # at any moment neighbours read different tiles, as CTAs of one wave do
        total = tl.dot(tiles.load([tile * ROWS, 0]), w, total)
    row = program * ROWS + tl.arange(0, ROWS)
    tl.store(out + row[:, None] * N + column[None, :], total)


def read_tiles(matrix: Tensor, weights: Tensor, out: Tensor, passes: int) -> None:
    """Let programs read ``passes`` tiles each, in turn, and add up their products with ``weights``.

    Args:
        matrix: ``[tiles * rows, depth]`` fp16, contiguous.
        weights: ``[depth, 16]`` fp16, contiguous.
        out: ``[programs, rows, 16]`` fp32; program p gets the sum over i < passes of tile (p + i) mod tiles @ weights.
        passes: tiles that each program reads.
    """
    programs, rows, columns = out.shape
    depth = matrix.shape[1]
    tiles = TensorDescriptor.from_tensor(matrix, [rows, depth])
    _read_tiles[(programs,)](
        tiles, weights, out, len(matrix) // rows, passes, ROWS=rows, DEPTH=depth, N=columns, STAGES=STAGES
    )
