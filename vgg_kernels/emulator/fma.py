"""fp32 fused multiply-add with one rounding, as every FMA unit computes it: LLVM's ``fma``, exact on every CPU."""

from typing import Any

import numpy as np
from numba import njit, prange, types
from numba.extending import intrinsic


@intrinsic
def _fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:  # numba calls it while it compiles
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), generate


@njit(cache=True)
def fma(a, b, c, out):  # pragma: no cover - compiled
    """``out = a * b + c``, rounded once to nearest even; fp32 arrays of one shape, or of one element."""
    a_step, b_step, c_step = int(len(a) > 1), int(len(b) > 1), int(len(c) > 1)
    for i in range(len(out)):
        out[i] = _fma(a[i * a_step], b[i * b_step], c[i * c_step])


@njit(parallel=True, cache=True)
def _chain(a, b, out):  # pragma: no cover - compiled
    for m in prange(a.shape[0]):
        for k in range(a.shape[1]):
            x = a[m, k]
            for n in range(b.shape[1]):
                out[m, n] = _fma(x, b[k, n], out[m, n])


def multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """``a @ b + c`` by one chain of fused multiply-adds along K: ``[M, K]``, ``[K, N]`` and ``[M, N]`` fp32."""
    out = np.array(c, np.float32)
    _chain(np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32), out)
    return out
