"""Global memory and tensor maps: every access is checked against the tensor that it falls into."""

import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .ptx import EmulationError

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SWIZZLE_BYTES = {0: 1 << 30, 1: 32, 2: 64, 3: 128}  # CU_TENSOR_MAP_SWIZZLE_NONE, 32B, 64B, 128B
MOST_BOX, MOST_RANK = 256, 5  # cuTensorMapEncodeTiled's limits


class GlobalMemory:
    """The tensors of a launch, at their own addresses."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._bytes: list[np.ndarray] = []

    def add(self, tensor: torch.Tensor) -> None:
        """Let accesses to the tensor's storage pass."""
        storage = tensor.untyped_storage()
        at = bisect.bisect_left(self._bases, storage.data_ptr())
        if at == len(self._bases) or self._bases[at] != storage.data_ptr():
            self._bases.insert(at, storage.data_ptr())
            self._bytes.insert(at, torch.empty(0, dtype=torch.uint8).set_(storage).numpy())

    def find(self, address: int, size: int, what: object) -> tuple[int, np.ndarray]:
        """Base address and bytes of the storage that holds ``size`` bytes at ``address``.

        Raises:
            EmulationError: where there is none.
        """
        at = bisect.bisect_right(self._bases, address) - 1
        if at >= 0 and address + size <= self._bases[at] + len(self._bytes[at]):
            return self._bases[at], self._bytes[at]
        raise EmulationError(f"{what}: {size} bytes at {address:#x} lie in no tensor")

    def _locate(self, addresses: np.ndarray, size: int, what: object) -> Iterator[tuple[Any, int, np.ndarray]]:
        if (addresses & (size - 1)).any():
            raise EmulationError(f"{what}: address not a multiple of its {size} bytes")
        left = np.ones(len(addresses), bool)
        while left.any():
            base, content = self.find(int(addresses[left].min()), size, what)
            inside = left & (addresses + size <= base + len(content))
            yield (slice(None) if inside.all() else np.nonzero(inside)[0]), base, content
            left &= ~inside

    def load(self, addresses: np.ndarray, dtype: Any, count: int, what: object) -> np.ndarray:
        """``[count, lanes]``: consecutive elements from each lane's address."""
        width = np.dtype(dtype).itemsize
        loaded = np.empty((count, len(addresses)), dtype)
        for lanes, base, content in self._locate(addresses, width * count, what):
            view = content[: len(content) // width * width].view(dtype)
            index = (addresses[lanes] - base) // width
            for j in range(count):
                loaded[j, lanes] = view[index + j]
        return loaded

    def store(self, addresses: np.ndarray, values: Sequence[np.ndarray], what: object) -> None:
        """Consecutive elements to each lane's address."""
        width = values[0].itemsize
        for lanes, base, content in self._locate(addresses, width * len(values), what):
            view = content[: len(content) // width * width].view(values[0].dtype)
            index = (addresses[lanes] - base) // width
            for j, value in enumerate(values):
                view[index + j] = value[lanes]


class TensorMap:
    """What ``cuTensorMapEncodeTiled`` makes of a tensor descriptor, with the driver's rules checked.

    Args:
        tensor: holds the data.
        shape: in elements, innermost last.
        strides: likewise.
        meta: what Triton tells its launcher of the descriptor: "elem_size", "block_size", "swizzle".
        memory: where the tensor lies.

    Raises:
        EmulationError: naming the rule that is broken.
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        shape: Sequence[int],
        strides: Sequence[int],
        meta: Mapping[str, Any],
        memory: GlobalMemory,
    ):
        size, self.box, self.swizzle = meta["elem_size"], tuple(meta["block_size"]), meta["swizzle"]
        rules = {
            "element size": tensor.dtype.itemsize == size,
            "rank": len(self.box) == len(shape) <= MOST_RANK,
            "base must be a multiple of 16 bytes": tensor.data_ptr() % 16 == 0,
            "strides must be multiples of 16 bytes below 2^40": all(
                s * size % 16 == 0 and 0 < s * size < 2**40 for s in strides[:-1]
            ),
            "innermost stride must be 1": strides[-1] == 1,
            "sizes must be 1 to 2^32": all(0 < d <= 2**32 for d in shape),
            f"box must be 1 to {MOST_BOX}": all(1 <= b <= MOST_BOX for b in self.box),
            "box's rows must be multiples of 16 bytes": self.box[-1] * size % 16 == 0,
            "box's rows must fit the swizzle": self.box[-1] * size <= SWIZZLE_BYTES[self.swizzle],
        }
        if broken := [rule for rule, kept in rules.items() if not kept]:
            raise EmulationError(f"tensor map of {list(shape)} in boxes of {list(self.box)}: {broken[0]}")
        memory.add(tensor)
        last = (sum((d - 1) * s for d, s in zip(shape, strides, strict=True)) + 1) * size
        base, content = memory.find(tensor.data_ptr(), last, "tensor map")
        flat = content[tensor.data_ptr() - base :][:last].view(UNSIGNED[size])
        self.shape, self.dtype = tuple(shape), UNSIGNED[size]
        self.view = np.lib.stride_tricks.as_strided(flat, self.shape, [s * size for s in strides])
        self.bytes = int(np.prod(self.box)) * size

    def _overlap(self, at: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
        source, target = [], []
        for start, extent, size in zip(at, self.box, self.shape, strict=True):
            low, high = max(start, 0), min(start + extent, size)
            if high <= low:
                return None
            source.append(slice(low, high))
            target.append(slice(low - start, high - start))
        return tuple(source), tuple(target)

    def read(self, at: Sequence[int]) -> np.ndarray:
        """The box at those coordinates, zero outside of the tensor."""
        found = self._overlap(at)
        if found is None:
            return np.zeros(self.box, self.dtype)
        source, target = found
        cut = self.view[source]
        if cut.shape == self.box:
            return np.ascontiguousarray(cut)
        box = np.zeros(self.box, self.dtype)
        box[target] = cut
        return box

    def write(self, at: Sequence[int], box: np.ndarray) -> int:
        """Store the part of a box that lies in the tensor; returns its bytes."""
        found = self._overlap(at)
        if found is None:
            return 0
        source, target = found
        cut = box.reshape(self.box)[target]
        self.view[source] = cut
        return cut.nbytes
