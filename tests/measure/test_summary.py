import pandas as pd
import pytest

from vgg_kernels.measure.summary import condense, throttled


def samples(*rows):
    columns = ["variant", "tier", "batch", "layer", "timer", "cache", "time_ms"]
    return pd.DataFrame([(*row[:-1], t) for row in rows for t in row[-1]], columns=columns)


EAGER = ("eager", "tf32", 10, "network", "kernelbench", "cold", [4.0, 4.0, 4.0])


def test_ratios_are_to_the_same_batch_timer_and_cache():
    table = condense(
        samples(
            EAGER,
            ("ours_fp16", "fp16", 10, "network", "kernelbench", "cold", [1.0, 1.0, 2.0]),
            ("ours_fp16", "fp16", 10, "network", "graph", "warm", [0.5]),
            ("ours_fp16", "fp16", 1, "network", "kernelbench", "cold", [0.5]),
        )
    ).set_index(["variant", "batch", "timer"])
    assert table.loc[("ours_fp16", 10, "kernelbench"), "vs_eager"] == 4.0
    assert table.loc[("ours_fp16", 10, "kernelbench"), "median_ms"] == 1.0
    assert pd.isna(table.loc[("ours_fp16", 10, "graph"), "vs_eager"])
    assert pd.isna(table.loc[("ours_fp16", 1, "kernelbench"), "vs_eager"])
    assert table["vs_inductor"].isna().all()


def test_layers_are_not_the_network():
    table = condense(samples(EAGER, ("eager", "tf32", 10, "conv1_1", "kernelbench", "cold", [9.0])))
    assert table["samples"].tolist() == [3]


def test_the_fastest_stands_first():
    table = condense(samples(EAGER, ("inductor", "tf32", 10, "network", "kernelbench", "cold", [2.0])))
    assert table["variant"].tolist() == ["inductor", "eager"]
    assert table["vs_inductor"].tolist() == [1.0, 0.5]


def test_no_samples_are_no_rows():
    assert len(condense(samples())) == 0


def test_a_throttled_timer_is_named():
    note = {"variant": "eager", "batch": 10, "layer": "network", "timer": "graph", "cache": "warm"}
    notes = [
        {"kind": "conditions", "payload": note | {"throttled": ["power cap"]}},
        {"kind": "conditions", "payload": note | {"throttled": []}},
        {"kind": "step", "payload": {}},
    ]
    assert throttled(notes) == ["eager at batch 10: power cap, in 1 of 2 timers (layers' included)"]


@pytest.mark.parametrize("kind", ["gate", "failure"])
def test_other_notes_do_not_count(kind):
    assert throttled([{"kind": kind, "payload": {"throttled": ["power cap"]}}]) == []
