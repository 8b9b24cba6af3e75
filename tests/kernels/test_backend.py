"""Which mode the kernels run in: decided once, before triton is imported, and told clearly where it cannot be."""

import os
import subprocess
import sys

import pytest
import torch

from vgg_kernels.kernels import backend

NO_GPU = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}


def python(code, **environment):
    clean = {name: value for name, value in NO_GPU.items() if name != backend.VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=False
    )


def test_without_a_gpu_kernels_are_interpreted():
    done = python("from vgg_kernels.kernels import backend; print(backend.INTERPRETED)")
    assert done.stdout.strip() == "True", done.stderr


def test_the_environment_has_the_last_word():
    done = python("from vgg_kernels.kernels import backend; print(backend.INTERPRETED)", TRITON_INTERPRET="0")
    assert done.stdout.strip() == "False", done.stderr


def test_triton_imported_first_is_a_clear_error():
    done = python("import triton.language; import vgg_kernels.kernels.model")
    assert done.returncode == 1
    assert "import vgg_kernels.kernels.model first, or set TRITON_INTERPRET=1" in done.stderr


def test_the_package_itself_imports_neither_torch_nor_triton():
    done = python("import sys, vgg_kernels; print({'torch', 'triton', 'matplotlib'} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.skipif(not backend.INTERPRETED, reason="the check is the interpreter's")
def test_the_overflow_check_can_be_turned_on():
    import triton
    import triton.language as tl

    @triton.jit
    def add(x_ptr, y_ptr):
        tl.store(y_ptr, tl.load(x_ptr) + tl.load(x_ptr))

    x, y = torch.tensor([2**30], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    add[(1,)](x, y)  # wraps, and nobody says so
    assert y.item() == -(2**31)
    backend.check_overflow(True)
    try:
        with pytest.raises(Exception, match="overflow"):
            add[(1,)](x, y)
    finally:
        backend.check_overflow(False)
