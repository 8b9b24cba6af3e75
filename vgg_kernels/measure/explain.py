"""What a run writes down of a failure, and of a number that JSON has no word for."""

from collections.abc import Mapping
from typing import Any


def explain(error: BaseException) -> str:
    """One sentence: what kind of failure it is, the exception's name, and its first line."""
    module = type(error).__module__
    name = type(error).__name__
    if name in ("OutOfMemoryError", "MemoryError"):
        kind = "out of memory"
    elif module.startswith(("torch._inductor", "torch._dynamo", "triton.compiler", "triton.runtime")):
        kind = "does not compile"
    else:
        kind = "raised"
    first = next(iter(str(error).strip().splitlines()), "no message")
    return f"{kind}: {name}: {first}"


def jsonable(value: Any) -> Any:
    """The value with every number that JSON has no word for (NaN, infinities) as a null."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(entry) for entry in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
