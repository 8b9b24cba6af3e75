import csv
import re
from pathlib import Path

from vgg_kernels.emulator.mutations import CHANGES

STORED = Path(__file__).resolve().parents[2] / "data" / "hazards.csv"


def changed() -> list[dict]:
    """The mutations of one small launch."""
    from vgg_kernels.emulator.mutations import table
    from vgg_kernels.workload.network import network

    return [vars(row) for row in table("fp16", network("vgg11", image=32), ["fc8"])]


def test_each_ordering_of_a_launch_is_changed_and_found_or_explained(compiling):
    rows = compiling(changed)
    assert {"barrier removed", "mbarrier wait removed", "wgmma wait removed"} <= {row["change"] for row in rows}
    assert all(bool(row["found"]) != bool(row["reason"]) for row in rows)
    assert all(row["found"] for row in rows if row["change"] == "mbarrier wait removed")
    assert any(row["found"] == "deadlock" for row in rows if row["change"] == "expected bytes changed")


def test_the_stored_table_says_of_each_change_what_was_found_or_why_not():
    with STORED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["change"] for row in rows} == {name for name, *_ in CHANGES}
    for row in rows:
        assert bool(row["found"]) != bool(row["reason"])
        assert not re.search("nothing depends", row["reason"])
