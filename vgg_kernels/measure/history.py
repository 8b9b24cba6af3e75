"""What a run taken up again already holds, read from its own notes and samples."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass
class History:
    """What a run taken up again already holds.

    Attributes:
        ended: last state of each step.
        begun: how often each step was begun without an end.
        reasons: why a step failed.
        gates: variant to whether it passed.
        medians: milliseconds by (variant, batch, layer, timer, cache), of every timer with rows.
        doubtful: tiers of which a kernel did not compile, or crashed, in a process of its own.
        gate_seed: the exam's whose batch sizes were compiled; none where nothing was.
    """

    ended: dict[str, str] = field(default_factory=dict)
    begun: Counter = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    gates: dict[str, bool] = field(default_factory=dict)
    medians: dict[tuple[str, int, str, str, str], float] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    gate_seed: int | None = None

    @classmethod
    def read(cls, notes: Iterable[Mapping[str, Any]], samples: pd.DataFrame) -> "History":
        """From a run's notes, ``{"kind", "payload"}`` in order, and its samples."""
        history = cls()
        for note in notes:
            payload = note["payload"]
            if note["kind"] == "step":
                name, state = payload["step"], payload["state"]
                history.begun[name] = history.begun[name] + 1 if state == "begun" else 0
                if state != "begun":
                    history.ended[name] = state
                    history.reasons[name] = payload.get("reason", "")
            elif note["kind"] == "gate":
                history.gates[payload["variant"]] = payload["passed"]
            elif note["kind"] == "compile":
                history.doubt(payload["rows"])
                history.gate_seed = payload["gate_seed"]
        keys = ["variant", "batch", "layer", "timer", "cache"]
        history.medians = samples.groupby(keys)["time_ms"].median().to_dict() if len(samples) else {}
        return history

    def doubt(self, compiled: Iterable[Mapping[str, Any]]) -> None:
        """Remember the tiers with an error among the rows of ``Bench.compile``; one for lack of time is none."""
        self.doubtful |= {row["tier"] for row in compiled if row["error"] and not row["timed_out"]}
