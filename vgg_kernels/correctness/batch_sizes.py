"""In how many images the quick gate asks: our kernels are cut, and so compiled, anew for each batch size."""

from .suite import EFFORTS, UNANSWERED, UNUSUAL_BATCHES

_QUICK = EFFORTS["quick"]
ALWAYS = tuple(dict.fromkeys((*_QUICK.batches, _QUICK.default_batch, UNANSWERED[1])))  # whatever the exam's seed


def batches(seed: int) -> tuple[int, ...]:
    """The batch sizes of every call that an exam of that seed makes of a candidate, each once."""
    later = (UNUSUAL_BATCHES[(seed + i) % len(UNUSUAL_BATCHES)] for i in range(1, _QUICK.seeds))
    return tuple(dict.fromkeys((*ALWAYS, *later)))
