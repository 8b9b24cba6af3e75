"""Small kernels in PTX, and a process in which Triton compiles (this one interprets)."""

import numpy as np
import pytest

from vgg_kernels.emulator.group import Options
from vgg_kernels.emulator.launch import compiling_processes, execute
from vgg_kernels.emulator.memory import GlobalMemory
from vgg_kernels.emulator.ptx import parse

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry small(
	.param .u64 .ptr .global .align 1 small_param_0,
	.param .align 64 .b8 small_param_1[128]
)
.reqntid {threads}
{{
	.reg .pred 	%p<8>;
	.reg .b16 	%rs<8>;
	.reg .b32 	%r<80>;
	.reg .b64 	%rd<16>;
"""
TAIL = "\n\tret;\n$L__func_end0:\n}\n"
BYTES = 16384


def program(body: str, threads: int = 128):
    lines = "\n".join(f"\t{line.strip()}" for line in body.strip().splitlines())
    return parse(HEAD.format(threads=threads) + lines + TAIL)


@pytest.fixture
def run():
    """Execute statements as a kernel of one CTA; its parameters are an address and a tensor map."""

    def run_(body, *, threads=128, tensor=None, tensor_map=None, **options):
        memory = GlobalMemory()
        if tensor is not None:
            memory.add(tensor)
        address = 0 if tensor is None else tensor.data_ptr()
        parameters = [address, tensor_map and tensor_map(memory)]
        return execute(program(body, threads), (1,), BYTES, parameters, memory, Options(**options))

    return run_


@pytest.fixture(scope="session")
def compiling():
    """``compiling(function, ...)``: its result, from a process in which Triton compiles."""
    with compiling_processes() as processes:
        yield lambda function, *arguments, **named: processes.submit(function, *arguments, **named).result()


def float_bits(value: float) -> str:
    return f"0f{int(np.float32(value).view(np.uint32)):08X}"
