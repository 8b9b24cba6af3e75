"""The tiers: each constant against the type that it describes."""

import pytest
import torch

from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.precision import TIERS, tier

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


@pytest.mark.parametrize("name", TYPES)
def test_constants_are_those_of_the_type(name):
    info, found = torch.finfo(TYPES[name]), tier(name)
    assert found.unit_roundoff == info.eps / 2
    assert found.operand_bytes == info.bits // 8
    if name != "bf16":  # said to have fp32's range: 3.39e38 against 3.40e38
        assert found.largest == info.max
    assert found.largest == pytest.approx(info.max, rel=0.01)


def test_tf32_and_fp16_round_alike_and_fp16x3_holds_two_halves():
    assert tier("tf32").unit_roundoff == tier("fp16").unit_roundoff == 2**-11
    split = tier("fp16x3")
    assert split.operand_bytes == 2 * tier("fp16").operand_bytes
    assert split.products == 3
    hi = torch.tensor(1 + 2**-11 - 2**-22).half()  # the worst remainder: half an fp16 ulp, kept to fp16's 11 bits
    rest = torch.tensor((1 + 2**-11 - 2**-22) - float(hi), dtype=torch.float64)
    error = abs(float(rest - (rest * 2048).half().double() / 2048))
    assert error <= split.unit_roundoff


def test_every_tier_is_found_by_its_own_name():
    assert all(tier(name).name == name for name in TIERS)
    with pytest.raises(UnknownName, match="unknown tier 'int8'; accepted: fp32, fp16x3, tf32, fp16, bf16, fp8"):
        tier("int8")
