"""The tile search, with a compiler that is a fake (said to be one): what it drops, what it prefers, what it stores."""

import csv
from dataclasses import replace

import pytest

from vgg_kernels.floor.hardware import device
from vgg_kernels.kernels import tiles
from vgg_kernels.kernels.tile_selection import candidates, select_tile
from vgg_kernels.predict import search
from vgg_kernels.predict.compiled import Facts
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import tier

CLEAN = Facts(160, 0, 0, 190_000, "64x256x16", 4, 0, 128, 8, 1, 1000, "fake")
VGG11 = network("vgg11", image=32)


def compiler(verdict):
    """A stand-in for ``inspect_all``: every launch compiles to what ``verdict`` says of it."""

    def inspect_all(launches, arch, jobs):
        assert arch == 90
        return ((launch, verdict(launch)) for launch in launches)

    return inspect_all


@pytest.fixture
def clean(monkeypatch):
    monkeypatch.setattr(search, "inspect_all", compiler(lambda launch: CLEAN))


@pytest.mark.usefixtures("clean")
def test_every_layer_behind_the_stem_gets_the_models_best_tile():
    choices = search.search(VGG11, ["fp16"], "h100_sxm", 10, keep=2)
    assert [c.shape for c in choices] == list(dict.fromkeys(tiles.shape_key(layer) for layer in VGG11.layers[1:]))
    for choice in choices:
        assert choice.time_us <= choice.runner_up_us
        assert choice.dropped == 0 < choice.compiled <= choice.legal


@pytest.mark.parametrize(
    "flaw",
    [
        {"spills": 3},
        {"stack_bytes": 16},
        {"shared_bytes": device("h100_sxm").shared_bytes_per_block + 1},
        {"mma_count": 0},
    ],
)
def test_a_tile_that_the_compiler_spoils_is_dropped(monkeypatch, flaw):
    monkeypatch.setattr(search, "inspect_all", compiler(lambda launch: CLEAN))
    first = search.search(VGG11, ["fp16"], "h100_sxm", 10, keep=3)[0]
    spoil = lambda launch: replace(CLEAN, **flaw) if str(launch.tile) == first.tile else CLEAN  # noqa: E731
    monkeypatch.setattr(search, "inspect_all", compiler(spoil))
    second = search.search(VGG11, ["fp16"], "h100_sxm", 10, keep=3)[0]
    assert second.tile != first.tile
    assert second.dropped == 1


def test_where_the_best_are_spoiled_the_next_are_compiled(monkeypatch):
    monkeypatch.setattr(search, "inspect_all", compiler(lambda launch: CLEAN))
    clean = search.search(VGG11, ["fp16"], "h100_sxm", 10, keep=2)[0]
    best = {clean.tile, clean.runner_up}
    compiled = []

    def spoil(launch):
        compiled.append((launch.layer, str(launch.tile)))
        return replace(CLEAN, spills=3) if str(launch.tile) in best else CLEAN

    monkeypatch.setattr(search, "inspect_all", compiler(spoil))
    first = search.search(VGG11, ["fp16"], "h100_sxm", 10, keep=2)[0]
    assert first.tile not in best
    assert (first.compiled, first.dropped) == (4, 2)
    assert first.time_us >= clean.time_us
    assert len(compiled) == len(set(compiled))  # nothing twice


def test_where_all_are_spoiled_the_error_names_the_layer_and_the_flaw(monkeypatch):
    monkeypatch.setattr(search, "inspect_all", compiler(lambda launch: replace(CLEAN, spills=7)))
    with pytest.raises(RuntimeError, match=r"conv2_1 in fp16.*spills=7"):
        search.search(VGG11, ["fp16"], "h100_sxm", 10, keep=2)


@pytest.mark.usefixtures("clean")
def test_progress_counts_every_kernel_that_is_compiled():
    seen = []
    search.search(VGG11, ["fp16"], "h100_sxm", 10, keep=2, progress=lambda *step: seen.append(step[:2]))
    assert seen == [(i, len(seen)) for i in range(1, len(seen) + 1)]


@pytest.mark.usefixtures("clean")
def test_unknown_names_say_what_is_accepted():
    with pytest.raises(UnknownName, match="h100_sxm"):
        search.search(VGG11, ["fp16"], "v100", 10)
    with pytest.raises(UnknownName, match="fp16x3"):
        search.search(VGG11, ["fp12"], "h100_sxm", 10)


@pytest.mark.usefixtures("clean")
def test_storing_replaces_equal_rows_and_keeps_others(tmp_path):
    table = tmp_path / "tuned_tiles.csv"
    ten = search.search(VGG11, ["fp16"], "h100_sxm", 10, keep=2)
    one = search.search(VGG11, ["fp16"], "h100_sxm", 1, keep=2)
    search.store(ten, table)
    search.store([*one, replace(ten[0], time_us=1.0)], table)
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == len(ten) + len(one)
    changed = [row for row in rows if row["time_us"] == "1.0"]
    assert [(row["shape"], row["batch"]) for row in changed] == [(ten[0].shape, "10")]
    assert all(tiles.parse_tile(row["tile"]) for row in rows)


def test_the_stored_table_is_legal_and_is_what_runs():
    """Every stored row is for a device and tier that exist, names a legal tile, and is what ``choose`` returns."""
    by_shape = {tiles.shape_key(layer): layer for layer in network("vgg19").layers[1:]}
    rows = list(csv.DictReader(search.TABLE.open()))
    assert {row["device"] for row in rows} >= {"h100_sxm", "h100_pcie", "h200"}
    for row in rows:
        layer, precision, card = by_shape[row["shape"]], tier(row["tier"]), device(row["device"])
        tile = tiles.parse_tile(row["tile"])
        assert tile in candidates(layer, precision, card, int(row["batch"]))
        assert select_tile(layer, precision, row["device"], int(row["batch"])) == tile
        assert int(row["shared_bytes"]) <= card.shared_bytes_per_block
