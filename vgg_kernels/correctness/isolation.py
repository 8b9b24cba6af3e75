"""What a candidate shares with the process that checks it: memory, switches, modes, hooks, functions.

``preserve_global_state`` compares all of them before and after the candidate's code runs, names what changed and
restores it, so that outputs are compared, and the next candidate called, in the state of before. It is no sandbox:
code that wants to can reach anything in its own process. It finds what wrong kernels do, and what has been done to
other checkers: TF32 left on, ``torch.allclose`` replaced, a mode entered in which all comparisons agree.
"""

import builtins
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
import torch.nn.modules.module as modules
from torch import Tensor
from torch.utils import _python_dispatch as dispatch

Switch = tuple[Callable[[], Any], Callable[[Any], object]]
Watched = Mapping[Any, Mapping[str, Any]]


def _attribute(owner: Any, name: str) -> Switch:
    return partial(getattr, owner, name), partial(setattr, owner, name)


def _stream() -> Any:
    return torch.cuda.current_stream() if torch.cuda.is_initialized() else None


def _set_stream(stream: Any) -> None:
    if stream is not None:
        torch.cuda.set_stream(stream)


SWITCHES: dict[str, Switch] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "number of threads": (torch.get_num_threads, torch.set_num_threads),
    "autocast on the CPU": (partial(torch.is_autocast_enabled, "cpu"), partial(torch.set_autocast_enabled, "cpu")),
    "autocast on the GPU": (partial(torch.is_autocast_enabled, "cuda"), partial(torch.set_autocast_enabled, "cuda")),
    "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "cudnn.allow_tf32": _attribute(torch.backends.cudnn, "allow_tf32"),
    "cuda.matmul.allow_tf32": _attribute(torch.backends.cuda.matmul, "allow_tf32"),
    "cudnn.benchmark": _attribute(torch.backends.cudnn, "benchmark"),
    "current CUDA stream": (_stream, _set_stream),
}
HOOKS = [name for name in vars(modules) if name.startswith("_global_") and isinstance(vars(modules)[name], dict)]
COMPARING = ("allclose", "cat", "cdist", "empty", "equal", "isfinite", "nonzero", "norm", "stack", "where", "zeros")
TIMING = ("CUDAGraph", "Event", "Stream", "current_stream", "synchronize")


def watched(*checkers: ModuleType) -> Watched:
    """The functions that candidates must leave alone, as they are now: Python's, PyTorch's, and those of ``checkers``.

    Of PyTorch only what checkers and timers call: it replaces some of the others itself (``torch.compile`` does).
    """
    own = [
        kind
        for module in checkers
        for kind in vars(module).values()
        if getattr(kind, "__module__", "") == module.__name__
    ]
    whole = [math, time, Tensor, F, *checkers, *(kind for kind in own if isinstance(kind, type))]
    found: dict[Any, dict[str, Any]] = {owner: dict(vars(owner)) for owner in whole}
    found[builtins] = {name: value for name, value in vars(builtins).items() if name[0] != "_"}  # an interpreter sets _
    found[torch] = {name: vars(torch)[name] for name in COMPARING}
    found[torch.cuda] = {name: vars(torch.cuda)[name] for name in TIMING}
    return found


_on_type, _off_type = type.__setattr__, type.__delattr__  # bound here: Python's own functions may be replaced too


def _restore(watched: Watched) -> list[str]:
    """Restore every function that was replaced, remove what a tensor has gained, and return their names."""
    names = []
    for owner, before in watched.items():
        now, module = owner.__dict__, owner.__class__ is ModuleType
        for name, value in before.items():
            if name not in now or now[name] is not value:
                names += [owner.__name__ + "." + name]
                if module:
                    now[name] = value
                else:
                    _on_type(owner, name, value)
        if owner is Tensor:
            for name in [name for name in now if name not in before]:
                names += ["Tensor." + name]
                _off_type(owner, name)
    return names


def _leave_modes(functions: int, dispatches: int) -> bool:
    """Leave the modes that were entered since; True where there were any."""
    found = False
    while torch._C._len_torch_function_stack() > functions:
        torch._C._pop_torch_function_stack()
        found = True
    while torch._C._len_torch_dispatch_stack() > dispatches:
        dispatch._pop_mode()
        found = True
    return found


def _unhook(before: Mapping[str, list]) -> bool:
    """Remove the hooks on all modules that were registered since; True where there were any."""
    found = False
    for name, keys in before.items():
        hooks = vars(modules)[name]
        for key in [key for key in hooks if key not in keys]:
            del hooks[key]
            found = True
    return found


@contextmanager
def preserve_global_state(watched: Watched) -> Iterator[list[str]]:
    """Within it a candidate's code may run. Afterwards the list that it yields names what was changed and restored.

    Args:
        watched: the functions to be left alone, of ``watched``.
    """
    changed: list[str] = []
    switches = {name: get() for name, (get, _) in SWITCHES.items()}
    depths = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    hooks = {name: list(vars(modules)[name]) for name in HOOKS}
    try:
        yield changed
    finally:
        functions = _restore(watched)
        if _leave_modes(*depths):
            changed.append("PyTorch's modes")
        if _unhook(hooks):
            changed.append("the hooks of all modules")
        for name, (get, put) in SWITCHES.items():
            if switches[name] is not None and get() != switches[name]:
                changed.append(name)
                put(switches[name])
        changed.extend(functions)


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
            warnings.simplefilter("ignore", UserWarning)  # "X has no deterministic implementation" does not matter here
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        switch.fill_uninitialized_memory = fill


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal in shape, type and every bit: NaN equals itself, 0 does not equal -0."""
    a, b = (t.detach().resolve_neg().contiguous() for t in (a, b))
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.view(torch.int32), b.view(torch.int32))


def share_memory(a: Tensor, b: Tensor) -> bool:
    """Whether the two tensors' storages overlap."""
    (a_begins, a_ends), (b_begins, b_ends) = (
        (t.untyped_storage().data_ptr(), t.untyped_storage().data_ptr() + t.untyped_storage().nbytes()) for t in (a, b)
    )
    return a_begins < b_ends and b_begins < a_ends
