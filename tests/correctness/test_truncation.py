"""Truncating sums, emulated: one-sided, growing with K, and cured by sums outside after each step."""

import torch

from vgg_kernels.correctness.truncation import INSTRUCTION, STEP, sum_products, truncated
from vgg_kernels.kernels.plan import plan
from vgg_kernels.workload.network import network


def operands(depth, seed=0):
    """Activations behind a ReLU and weights, both fp16, as a convolution of that depth meets them."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(64, depth, generator=generator).relu()
    b = torch.randn(48, depth, generator=generator) + 0.1
    return a.half().double(), b.half().double()


def error(depth, **how):
    a, b = operands(depth)
    exact = a @ b.T
    return float((sum_products(a, b, **how) - exact).norm() / exact.norm())


def test_the_step_is_the_kernels():
    products = [launch for launch in plan(network("vgg19"), "fp16x3", 10) if launch.kernel in ("conv3x3", "linear")]
    assert {launch.tile.bk for launch in products} == {STEP}


def test_truncation_is_towards_zero_and_by_less_than_an_ulp():
    x = torch.randn(1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    cut = truncated(x)
    assert (cut.abs() <= x.abs()).all()
    assert ((x - cut).abs() < 2.0**-23 * x.abs()).all()
    assert torch.equal(truncated(cut), cut)


def test_one_instruction_s_sum_is_exact_up_to_its_rounding():
    a, b = operands(INSTRUCTION)
    assert torch.equal(sum_products(a, b, truncating=False), (a @ b.T).float().double())


def test_truncating_sums_lose_the_fp32_grade_and_sums_outside_keep_it():
    """conv4's 4608 products: all inside the tensor cores, or each step's 64 added outside as fp16x3 does."""
    rounded, inside = error(4608, truncating=False), error(4608, truncating=True)
    outside = error(4608, truncating=True, outer=STEP)
    assert inside > 10 * rounded
    assert outside < 1.5 * rounded
    assert error(9216, truncating=True) > 1.5 * inside  # it grows with K, as a bias does
