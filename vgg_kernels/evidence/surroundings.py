"""What a candidate shares with its judge, and may not change: memory, global switches."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Within it memory allocated without a value holds NaN (PyTorch's own switch), so what is never written shows."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    switch: Any = torch.utils.deterministic  # whose attribute is a property that type checkers cannot see
    fill = switch.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    switch.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "X has no deterministic implementation": not our concern
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        switch.fill_uninitialized_memory = fill


def global_state() -> dict:
    """The process's switches by name."""
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        "cuda.matmul.allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "float32 matmul precision": torch.get_float32_matmul_precision(),
    }


def restore(state: dict) -> None:
    """Put every switch back."""
    torch.set_default_dtype(state["default dtype"])
    torch.set_grad_enabled(state["grad mode"])
    torch.set_float32_matmul_precision(state["float32 matmul precision"])
    torch.backends.cudnn.allow_tf32 = state["cudnn.allow_tf32"]
    torch.backends.cuda.matmul.allow_tf32 = state["cuda.matmul.allow_tf32"]


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal in shape, type and every bit: NaN equals itself, 0 does not equal -0."""
    a, b = a.detach().contiguous(), b.detach().contiguous()
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.view(torch.int32), b.view(torch.int32))


def memory(tensor: Tensor) -> int:
    """Where the tensor's storage begins."""
    return tensor.untyped_storage().data_ptr()
