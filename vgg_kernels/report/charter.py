"""What the page promises in words: semantics with their tests, how records are decided, sources, how to contribute.

The words are in ``charter.toml``; the figures in them are the code's own.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from ..records.ranking import STALE_AFTER
from ..records.records import Facts
from ..records.statistics import CONFIDENCE, RESAMPLES, samples_needed
from ..records.trust import LEVELS
from ..workload.identity import KERNELBENCH
from .page_model import Rule, Semantic, Source

FIGURES = {
    "confidence": f"{100 * CONFIDENCE:.0f}",
    "resamples": RESAMPLES,
    "samples_p95": samples_needed(0.95),
    "samples_p99": samples_needed(0.99),
    "stale_days": STALE_AFTER.days,
    "levels": " < ".join(LEVELS),
    "problem": f"{KERNELBENCH.revision[:10]}:{KERNELBENCH.path}",
    "repository": KERNELBENCH.repository,
    "model_tests": "tests/kernels/test_semantics.py::",
}


class Charter(Facts):
    """The page's words, by what they are about."""

    statement: str
    identities: list[str]
    semantics: list[Semantic]
    rules: list[Rule]
    sources: list[Source]
    contributing: list[Rule]


@cache
def charter() -> Charter:
    """The words of ``charter.toml``, their figures filled in.

    Raises:
        KeyError: for a name in braces that is none of ``FIGURES``.
    """
    words = tomllib.loads(files(__package__).joinpath("charter.toml").read_text(encoding="utf-8"))
    return Charter.model_validate(_filled(words))


def _filled(words: Any) -> Any:
    if isinstance(words, dict):
        return {name: _filled(value) for name, value in words.items()}
    return [_filled(value) for value in words] if isinstance(words, list) else words.format(**FIGURES)
