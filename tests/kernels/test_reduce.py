"""The second launch: shares added in order, affine, ReLU and pool, on fp32 partials that no convolution made."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.kernels import reduce
from vgg_kernels.kernels.layout import Activation, Packed, encode
from vgg_kernels.kernels.plan import share_rows
from vgg_kernels.kernels.tiles import Tile
from vgg_kernels.workload.network import Conv
from vgg_kernels.workload.precision import tier

CPU = torch.device("cpu")


def split(one, conv, batch, shares, tier_name, pad, partial, alpha, beta):
    """Reduce NHWC partials ``[shares, N, H+1, W+1, C]``; what no pixel reads is NaN."""
    found, tile = tier(tier_name), Tile(64, 16, 16, 2, 4, split_k=shares)
    _, launch = one.launches(conv, found, batch, tile, pad)
    rows = share_rows(conv, batch)
    given = torch.full((shares, rows, conv.c_out), float("nan"))
    given[:, : partial[0].flatten(0, 2).shape[0]] = partial.flatten(1, 3)
    _, height, width = conv.output_shape
    y = Activation.empty((batch, height, width, conv.c_out), found, CPU, pad, 0)
    for plane in y.planes:
        plane.fill_(float("nan"))
    reduce.run(launch, given.flatten(0, 1), Packed([], alpha, beta), y)
    return y


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.integers(2, 6), st.booleans(), st.integers(0, 1))
def test_shares_are_summed_scaled_and_pooled(one, height, width, batch, shares, pooled, pad):
    step = 2 if pooled else 1
    conv = Conv("conv", "conv", 16, 16, step * height, step * width, pooled)
    generator = torch.Generator().manual_seed(height * 7 + width)
    partial = torch.randn(shares, batch, conv.height + 1, conv.width + 1, 16, generator=generator)
    partial[:, :, conv.height] = float("nan")  # the padding's rows hold what the products left there
    partial[:, :, :, conv.width] = float("nan")
    alpha, beta = torch.ldexp(torch.ones(16), torch.arange(16) - 8), torch.randn(16, generator=generator)
    y = split(one, conv, batch, shares, "fp32", pad, partial, alpha, beta)
    summed = partial[0]
    for part in partial[1:]:
        summed = summed + part  # in this order, and no other
    want = F.relu(summed[:, :-1, :-1].double() * alpha.double() + beta.double()).permute(0, 3, 1, 2)
    want = F.max_pool2d(want, 2) if pooled else want
    assert torch.equal(y.values(), want.float())  # a power of two and one addition: rounded once
    plane = y.planes[0]
    _, height, width = conv.output_shape
    assert not plane[:, height:].any()
    assert not plane[:, :, width:].any()


@pytest.mark.parametrize("name", ["fp32", "fp16", "fp16x3", "bf16", "fp8"])
def test_a_plain_pool_returns_operands_bit_for_bit(one, name):
    found, conv = tier(name), Conv("conv", "conv", 16, 16, 6, 10, True)
    values = torch.relu(torch.randn(2, 6, 10, 16, generator=torch.Generator().manual_seed(0)))
    whole = Activation.empty((2, 6, 10, 16), found, CPU, 1, 0)
    for plane, part in zip(whole.planes, encode(values, found), strict=True):
        plane[:, :6, :10] = part
    _, launch = one.launches(conv, found, 2, Tile(64, 16, 16, 2, 4), 1)
    assert launch.kernel == "maxpool"
    y = Activation.empty((2, 3, 5, 16), found, CPU, 1, 0)
    for plane in y.planes:
        plane.fill_(float("nan"))
    reduce.run(launch, whole, Packed([], torch.ones(16), torch.zeros(16)), y)
    assert torch.equal(y.values(), F.max_pool2d(whole.values(), 2))
    assert not any(plane[:, 3:].float().any() or plane[:, :, 5:].float().any() for plane in y.planes)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # infinity less infinity, in numpy
def test_nan_and_infinity_win_as_in_torch(one):
    conv = Conv("conv", "conv", 16, 16, 4, 4, True)
    partial = torch.zeros(2, 1, 5, 5, 16)
    partial[0, 0, 1, 1, 3] = float("nan")
    partial[1, 0, 2, 0, 4] = float("inf")
    partial[0, 0, 2, 3, 5], partial[1, 0, 2, 3, 5] = float("inf"), float("-inf")
    y = split(one, conv, 1, 2, "fp16", 1, partial, torch.ones(16), torch.zeros(16)).values()
    want = F.max_pool2d(F.relu(partial.sum(0)[:, :4, :4]).permute(0, 3, 1, 2), 2)
    assert torch.equal(y.isnan(), want.isnan())
    assert torch.equal(y.isinf(), want.isinf())
    assert int(want.isnan().sum()) == 2
