"""The precision tiers: what an operand of the matrix products is rounded to, and what that costs.

Every tier accumulates in fp32 and takes and returns fp32. A tier is named after its operands.
"""

from dataclasses import dataclass

from .lookup import lookup


@dataclass(frozen=True)
class Tier:
    """How one operand is represented.

    Attributes:
        name: the tier's name on the command line and in every table.
        mantissa_bits: explicit fraction bits of an operand (of the two halves together for fp16x3).
        operand_bytes: bytes of one operand in memory (both halves for fp16x3).
        products: tensor-core products for one mathematical product.
        rate: the data-sheet rate that bounds it: "fp32", "tf32", "fp16" or "fp8".
        largest: largest finite operand; a larger activation must come out non-finite.
        summary: one line for tables.
    """

    name: str
    mantissa_bits: int
    operand_bytes: int
    products: int
    rate: str
    largest: float
    summary: str

    @property
    def unit_roundoff(self) -> float:
        """u = 2^-(mantissa bits + 1): the largest relative error of rounding one operand to nearest."""
        return 2.0 ** -(self.mantissa_bits + 1)


FP32_MAX = (2 - 2**-23) * 2.0**127
TIERS = {
    tier.name: tier
    for tier in (
        Tier("fp32", 23, 4, 1, "fp32", FP32_MAX, "IEEE fp32 on the FMA units"),
        Tier("fp16x3", 21, 4, 3, "fp16", 65504.0, "fp16 high and low halves, three products, as accurate as fp32"),
        Tier("tf32", 10, 4, 1, "tf32", FP32_MAX, "fp32 storage rounded to 10 mantissa bits"),
        Tier("fp16", 10, 2, 1, "fp16", 65504.0, "tf32's 10 mantissa bits in half the bytes"),
        Tier("bf16", 7, 2, 1, "fp16", FP32_MAX, "fp32's range, 7 mantissa bits, fp16's rate"),
        Tier("fp8", 3, 1, 1, "fp8", 448.0, "e4m3 with power-of-two scales"),
    )
}


def tier(name: str) -> Tier:
    """The tier of that name.

    Raises:
        UnknownName: naming the tiers that exist.
    """
    return lookup("tier", name, TIERS)
