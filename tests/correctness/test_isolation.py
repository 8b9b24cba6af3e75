"""What a candidate changes in its process is named and restored, and what a compiler changes is not counted."""

import builtins
import math
import time

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from vgg_kernels.correctness import error_bounds
from vgg_kernels.correctness.gate import WATCHED
from vgg_kernels.correctness.isolation import poisoned_memory, preserve_global_state, same_bits, share_memory
from vgg_kernels.correctness.result import Verdict


def always(*args, **kwargs):
    return True


CHANGES = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "grad mode": lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
    "number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "autocast on the CPU": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast on the GPU": lambda: torch.set_autocast_enabled("cuda", True),
    "cudnn.allow_tf32": lambda: setattr(torch.backends.cudnn, "allow_tf32", not torch.backends.cudnn.allow_tf32),
    "cudnn.benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "float32 matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "PyTorch's modes": lambda: TorchFunctionMode().__enter__(),
    "the hooks of all modules": lambda: torch.nn.modules.module.register_module_forward_hook(always),
    "torch.allclose": lambda: setattr(torch, "allclose", always),
    "torch.cuda.synchronize": lambda: setattr(torch.cuda, "synchronize", always),
    "Tensor.norm": lambda: setattr(torch.Tensor, "norm", always),
    "Tensor.isfinite": lambda: setattr(torch.Tensor, "isfinite", always),  # its base class has it
    "torch.nn.functional.conv2d": lambda: setattr(torch.nn.functional, "conv2d", always),
    "builtins.all": lambda: setattr(builtins, "all", always),
    "builtins.setattr": lambda: setattr(builtins, "setattr", always),
    "math.isfinite": lambda: setattr(math, "isfinite", always),
    "time.perf_counter": lambda: setattr(time, "perf_counter", always),
    "vgg_kernels.correctness.error_bounds.MARGIN": lambda: setattr(error_bounds, "MARGIN", 100.0),
    "Verdict.passed": lambda: setattr(Verdict, "passed", True),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_named_and_restored(name):
    for _ in range(2):  # the second time it would not be there to be found, had it not been restored
        with preserve_global_state(WATCHED) as changed:
            CHANGES[name]()
        assert name in changed
    with preserve_global_state(WATCHED) as changed:
        pass
    assert changed == []


def test_a_dispatch_mode_is_left_too():
    depth = torch._C._len_torch_dispatch_stack()
    with preserve_global_state(WATCHED) as changed:
        TorchDispatchMode().__enter__()
    assert changed == ["PyTorch's modes"]
    assert torch._C._len_torch_dispatch_stack() == depth


def test_it_is_restored_after_an_exception_too():
    changed = []

    def harm():
        nonlocal changed
        with preserve_global_state(WATCHED) as changed:
            torch.Tensor.norm = always
            raise RuntimeError

    with pytest.raises(RuntimeError):
        harm()
    assert changed == ["Tensor.norm"]
    assert float(torch.tensor([3.0, 4.0]).norm()) == 5


def test_a_compiler_is_no_offence():
    """PyTorch's own replaces functions of torch and of Module when it is imported and used."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
    with preserve_global_state(WATCHED) as changed, torch.no_grad():
        torch.compile(model, backend="eager")(torch.zeros(1, 3, 8, 8))
    assert changed == []


def test_unwritten_memory_holds_nan_only_inside():
    with poisoned_memory():
        assert torch.isnan(torch.empty(5)).all()
        assert torch.isnan(torch.empty(5, dtype=torch.float16)).all()
    assert not torch.are_deterministic_algorithms_enabled()


def test_bits_and_not_values_are_compared():
    x = torch.tensor([float("nan"), 0.0])
    assert same_bits(x, x.clone())
    assert not same_bits(x, -x)
    assert same_bits(torch._neg_view(-x[1:]), x[1:])
    assert not same_bits(x, x[:1])


def test_memory_is_shared_where_storages_overlap():
    memory = torch.zeros(10).numpy()
    a, b, c = (torch.from_numpy(memory[i : i + 4]) for i in (0, 3, 4))
    assert share_memory(a, b)
    assert not share_memory(a, c)
    assert share_memory(a, a[1:])
