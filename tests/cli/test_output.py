"""Tables for people: at 80 columns no cell of a tile's table is cut."""

import json

import pytest

from vgg_kernels.cli.output import print_json, print_table

COLUMNS = ("layer", "tile", "time", "waves")
ROWS = [("conv1_2", "256x128x64 pairs 1x16x16 swapped s2 w8", 66.0, 8), ("fc8", "", 3.9, 1)]


def shown(capsys, monkeypatch, width, **how):
    monkeypatch.setenv("COLUMNS", str(width))
    print_table("Times", COLUMNS, ROWS, "modelled", **how)
    return capsys.readouterr().out


def test_a_wide_terminal_shows_every_column(capsys, monkeypatch):
    text = shown(capsys, monkeypatch, 80, spare=("waves", "time"))
    assert all(name in text for name in COLUMNS)
    assert "left out" not in text


@pytest.mark.parametrize(("width", "gone"), [(57, ["waves"]), (50, ["waves", "time"])])
def test_a_narrow_one_does_without_the_spare_columns_and_says_so(capsys, monkeypatch, width, gone):
    text = shown(capsys, monkeypatch, width, spare=("waves", "time"))
    assert max(map(len, text.splitlines())) <= width
    assert ROWS[0][1] in text
    assert f"{', '.join(gone)}" in " ".join(text.split())
    head = text.splitlines()[1].split()
    assert head == [name for name in COLUMNS if name not in gone]


def test_without_spare_columns_long_cells_wrap(capsys, monkeypatch):
    text = shown(capsys, monkeypatch, 40)
    assert ROWS[0][1] not in text
    assert all(name in text for name in COLUMNS)
    assert "modelled" in text


def test_json_is_strict(capsys):
    print_json({"ms": None})
    assert json.loads(capsys.readouterr().out) == {"ms": None}
    with pytest.raises(ValueError, match="JSON"):
        print_json({"ms": float("nan")})
