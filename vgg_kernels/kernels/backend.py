"""Where the kernels run: compiled on an NVIDIA GPU, or interpreted by Triton on the CPU, from the same source.

Triton decides when it is imported, and neither mode can call the other's functions. So every module with a kernel
imports this one before triton. A process that only compiles (for inspection) sets ``TRITON_INTERPRET=0`` itself.
"""

import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch

VARIABLE = "TRITON_INTERPRET"

if VARIABLE not in os.environ and not torch.cuda.is_available():
    if "triton.language" in sys.modules:
        raise ImportError(
            "triton was imported in compiling mode before vgg_kernels.kernels, and this machine has no NVIDIA GPU: "
            f"import vgg_kernels.kernels.model first, or set {VARIABLE}=1 in the environment"
        )
    os.environ[VARIABLE] = "1"

INTERPRETED: bool = os.environ.get(VARIABLE, "0") == "1"
"""True where kernels run in Triton's interpreter on the CPU."""


LAUNCHER: ContextVar[Callable[..., Any] | None] = ContextVar("launcher", default=None)
"""Takes launches in the GPU's place, ``(signature, grid, arguments)``: the emulator's."""


def check_overflow(enabled: bool) -> None:
    """Whether the interpreter repeats every 32-bit integer operation in 64 bits and asserts that nothing overflowed.

    Triton's interpreter repeats them by default, at five times the running time, and asserts nothing. Here it does
    neither, and a test turns both on.
    """
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=enabled, debug=enabled)  # debug: assertions count


if INTERPRETED:
    check_overflow(False)
