"""Arithmetic, moves and conversions: one numpy call for each instruction on registers."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import fma
from .ptx import EmulationError, Instruction, address_of, registers_of

if TYPE_CHECKING:
    from .group import Group

Built = tuple[Callable[[], Any], list[str]]  # the call, and the registers that it writes

DTYPES: dict[str, Any] = {
    "s32": np.int32, "u32": np.uint32, "b32": np.uint32, "s16": np.int16, "u16": np.uint16, "b16": np.uint16,
    "s64": np.int64, "u64": np.uint64, "b64": np.uint64, "s8": np.int8, "u8": np.uint8, "b8": np.uint8,
    "f32": np.float32, "f16": np.float16, "pred": np.bool_,
}  # fmt: skip
SIMPLE = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
COMPARE = {
    "lt": np.less, "gt": np.greater, "ge": np.greater_equal, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
UNORDERED = {  # fp32 comparisons that NaN decides otherwise than numpy
    "geu": lambda a, b: ~(a < b),
    "ne": lambda a, b: (a < b) | (a > b),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}
WIDE = {"s32": np.int64, "u32": np.uint64, "s16": np.int32, "u16": np.uint32}
E4M3, BF16 = torch.float8_e4m3fn, torch.bfloat16


def build(group: "Group", ins: Instruction) -> Built | None:
    """The call of an arithmetic instruction, None for another.

    Raises:
        EmulationError: for a predicated one, which Triton does not emit.
    """
    function = _function(group, ins)
    if function is None:
        return None
    if ins.predicate is not None:
        raise EmulationError(f"predicated arithmetic: {ins}")
    targets = registers_of(ins.operands[0]) if ins.operands and ins.operands[0].startswith("{") else []
    names = targets or [name for name in ins.operands[0].split("|") if name.startswith("%")] if ins.operands else []
    return function, [name for name in names if name != "_"]


def _function(group: "Group", ins: Instruction) -> Callable[[], Any] | None:
    base, *suffixes = ins.op.split(".")
    kind, args = ins.type, ins.operands
    source, target = group.source, group.target

    def binary(function: Any, dtype: Any, to: Any = None) -> Callable[[], Any]:
        return partial(_into, function, target(args[0], to or dtype), *(source(x, dtype) for x in args[1:]))

    def plain(function: Any, dtype: Any) -> Callable[[], Any]:
        return partial(_quiet, function, *(source(x, dtype) for x in args[1:]), target(args[0], dtype))

    if base in SIMPLE and kind in DTYPES and (len(suffixes) == 1 or suffixes[0] == "lo"):
        if base in ("max", "min") and kind == "f32":
            return None
        return partial(
            _quiet, SIMPLE[base], *(source(x, DTYPES[kind]) for x in args[1:]), target(args[0], DTYPES[kind])
        )
    if ins.op == "add.s16x2":
        return plain(np.add, np.uint16)
    if ins.op == "max.NaN.f32":  # numpy's maximum passes NaN on
        return plain(np.maximum, np.float32)
    if base == "mul" and suffixes[0] == "hi":
        bits = 8 * np.dtype(DTYPES[kind]).itemsize
        return binary(lambda a, b: (a.astype(WIDE[kind]) * b.astype(WIDE[kind])) >> bits, DTYPES[kind])
    if base in ("mul", "mad") and suffixes[0] == "wide":
        wide = WIDE[kind]
        a, b = (source(x, DTYPES[kind]) for x in args[1:3])
        c = source(args[3], wide) if base == "mad" else wide(0)
        return partial(_into, lambda a, b: a.astype(wide) * b.astype(wide) + c, target(args[0], wide), a, b)
    if ins.op == "mad.lo.s32":
        return binary(lambda a, b, c: a * b + c, np.int32)
    if ins.op == "fma.rn.f32":
        return plain(fma.fma, np.float32)
    if base in ("shl", "shr") and not args[2].startswith("%") and 0 <= int(args[2]) < 64:
        dtype = DTYPES[kind]
        shift = np.left_shift if base == "shl" else np.right_shift
        return partial(shift, source(args[1], dtype), dtype(int(args[2])), target(args[0], dtype))
    if base == "bfe":
        low, length = int(args[2]), int(args[3])
        up, down = 32 - low - length, 32 - length
        dtype = DTYPES[kind]
        return partial(_into, lambda a: (a << dtype(up)) >> dtype(down), target(args[0], dtype), source(args[1], dtype))
    if ins.op == "abs.f32":
        return partial(np.bitwise_and, source(args[1], np.uint32), np.uint32(0x7FFFFFFF), target(args[0], np.uint32))
    if ins.op == "neg.f32":
        return partial(np.bitwise_xor, source(args[1], np.uint32), np.uint32(0x80000000), target(args[0], np.uint32))
    if ins.op == "neg.s32":
        return partial(np.negative, source(args[1], np.int32), target(args[0], np.int32))
    if ins.op == "not.b32":
        return partial(np.invert, source(args[1], np.uint32), target(args[0], np.uint32))
    if base == "selp":
        dtype = np.dtype(DTYPES[kind])
        raw = f"u{dtype.itemsize}"
        a, b, p = source(args[1], raw), source(args[2], raw), source(args[3], np.bool_)
        return partial(_into, lambda a, b, p: np.where(p, a, b), target(args[0], raw), a, b, p)
    if base == "setp":
        function = UNORDERED.get(suffixes[0]) if kind == "f32" else None
        function = function or COMPARE.get(suffixes[0])
        return None if function is None else binary(function, DTYPES[kind], np.bool_)
    if base == "mov":
        return _move(group, ins, DTYPES.get(kind))
    if base == "cvt":
        return _convert(group, ins, DTYPES)
    if ins.op == "cvta.param.u64":
        return partial(_into, np.asarray, target(args[0], np.uint64), source(args[1], np.uint64))
    if ins.op.startswith("ld.param"):
        value = group.parameters[int(address_of(args[1])[0].rpartition("_")[2])]
        bits = int(np.float32(value).view(np.uint32)) if isinstance(value, float) else int(value)
        return partial(_into, np.asarray, target(args[0], DTYPES[kind]), source(str(bits), DTYPES[kind]))
    if ins.op in ("griddepcontrol.launch_dependents", "griddepcontrol.wait"):
        return _nothing  # launches run one after the other here
    if ins.op == "prmt.b32":
        return _permute(group, ins)
    return _warp(group, ins)


def _into(function: Callable[..., Any], target: np.ndarray, *sources: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        target[:] = function(*sources)


def _quiet(function: Callable[..., Any], *arguments: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        function(*arguments)


def _nothing() -> None:
    pass


def _move(group: "Group", ins: Instruction, dtype: Any) -> Callable[[], Any]:
    to, value = ins.operands
    halves = np.uint16
    if to.startswith("{"):  # unpack
        packed = group.source(value, np.uint32)
        parts = [(i, group.target(name, halves)) for i, name in enumerate(registers_of(to)) if name != "_"]

        def unpack() -> None:
            view = packed.view(halves).reshape(-1, 2)
            for i, part in parts:
                part[:] = view[:, i]

        return unpack
    if value.startswith("{"):
        sources = [group.source(name, halves) for name in registers_of(value)]
        view = group.target(to, np.uint32).view(halves).reshape(-1, 2)

        def pack() -> None:
            view[:, 0], view[:, 1] = sources

        return pack
    return partial(_into, np.asarray, group.target(to, dtype), group.source(value, dtype))


def _convert(group: "Group", ins: Instruction, dtypes: dict[str, Any]) -> Callable[[], Any] | None:
    to, *values = ins.operands
    row = group.row(to)
    floats = {
        "cvt.rn.f16.f32": torch.float16, "cvt.rn.f16x2.f32": torch.float16, "cvt.rn.bf16.f32": BF16,
        "cvt.rn.bf16x2.f32": BF16, "cvt.rn.satfinite.e4m3x2.f32": E4M3,
    }  # fmt: skip
    if ins.op in floats:
        sources = [group.source(value, np.float32) for value in reversed(values)]  # the last one is the low half
        return partial(_round, sources, floats[ins.op], row)
    if ins.op == "cvt.f32.bf16":
        return partial(_into, lambda a: a.astype(np.uint32) << np.uint32(16), row, group.source(values[0], np.uint16))
    if ins.op == "cvt.rn.f16x2.e4m3x2":
        return partial(_into, _from_e4m3, row, group.source(values[0], np.uint16))
    parts = ins.op.split(".")[1:]
    if len(parts) != 2 or not set(parts) <= set(dtypes):
        return None
    wide, narrow = dtypes[parts[0]], dtypes[parts[1]]
    if np.dtype(wide).kind == "f":
        return partial(_into, np.asarray, row.view(wide), group.source(values[0], narrow))
    signed = np.dtype(f"{np.dtype(wide).kind}{row.itemsize}")  # extended to the register's width

    def convert(a: np.ndarray) -> np.ndarray:
        return a.astype(narrow).astype(wide).astype(signed).view(row.dtype)

    return partial(_into, convert, row, group.row(values[0]))


def _round(sources: list[np.ndarray], dtype: torch.dtype, row: np.ndarray) -> None:
    """fp32 to nearest even, packed into a register, the low part first."""
    for i, value in enumerate(sources):
        rounded = torch.from_numpy(np.array(np.broadcast_to(value, len(row)))).to(dtype)
        raw = rounded.view(torch.int16 if rounded.itemsize == 2 else torch.uint8).numpy()
        row.view(raw.dtype).reshape(len(row), -1)[:, i] = raw


def _from_e4m3(pairs: np.ndarray) -> np.ndarray:
    values = torch.from_numpy(pairs.copy().view(np.uint8)).view(E4M3).to(torch.float16)
    return values.numpy().view(np.uint32)


def _permute(group: "Group", ins: Instruction) -> Callable[[], Any] | None:
    to, a, b, selector = ins.operands
    if selector.startswith("%"):
        return None
    chosen = [(int(selector.rstrip("U"), 0) >> 4 * i) & 15 for i in range(4)]
    row = group.row(to)

    def permute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        pool = np.stack([np.broadcast_to(x, len(row)) for x in (a, b)], 1).view(np.uint8)
        picked = pool[:, [c & 7 for c in chosen]]
        signs = np.where(picked & 0x80, np.uint8(255), np.uint8(0))
        return np.ascontiguousarray(np.where([c & 8 for c in chosen], signs, picked), np.uint8).view(np.uint32)[:, 0]

    return partial(_into, permute, row, group.source(a, np.uint32), group.source(b, np.uint32))


def _warp(group: "Group", ins: Instruction) -> Callable[[], Any] | None:
    args = ins.operands
    if ins.op == "elect.sync":
        lane, chosen = map(group.row, args[0].split("|"))
        leader = group.thread % 32 == 0

        def elect() -> None:
            lane[:], chosen[:] = 0, leader

        return elect
    if ins.op in ("shfl.sync.idx.b32", "shfl.sync.bfly.b32"):
        to, values = group.row(args[0]).reshape(-1, 32), group.row(args[1]).reshape(-1, 32)
        own = np.arange(32)[None]
        lanes = group.source(args[2], np.uint32)

        def shuffle() -> None:
            other = lanes.reshape(-1, 32) if len(lanes) > 1 else lanes[None]
            other = own ^ other if "bfly" in ins.op else other & 31
            to[:] = np.take_along_axis(values, np.broadcast_to(other.astype(np.int64), values.shape), 1)

        return shuffle
    if ins.op == "bar.sync" and args == ("0",):  # of all threads

        def barrier() -> None:
            group.epoch += 1

        return barrier
    return None
