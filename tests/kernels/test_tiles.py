"""Tiles: counted as they will be launched, with what a step asks for, and a text that names each."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.floor.hardware import device
from vgg_kernels.kernels import tiles
from vgg_kernels.kernels.plan import conv_launches
from vgg_kernels.kernels.tiles import Tile, ctas, parse_tile
from vgg_kernels.workload.network import Conv, network
from vgg_kernels.workload.precision import tier

VGG = network("vgg19")
H100 = device("h100_sxm")


def test_an_exact_wave_at_28_by_28():
    """8410 padded rows in 66 tiles of 128, and 512 channels in two of 256: the 132 SMs of an H100 SXM."""
    conv = VGG.layer("conv4_2")
    assert tiles.padded_rows(conv, 10) == 8410
    assert ctas(conv, Tile(128, 256, 64, 4, 8), 10) == 132 == H100.sms
    assert ctas(conv, Tile(128, 256, 64, 4, 8, (1, 16, 8)), 10) > 132


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 9), st.sampled_from([(1, 8, 16), (2, 8, 8), (4, 4, 8)]))
def test_tiles_cover_every_pixel_once(height, width, batch, box):
    conv = Conv("conv", "conv", 64, 64, height, width, False)
    flat, boxed = (Tile(128, 64, 64, 4, 4, b, True) for b in (None, box))
    rows = batch * (height + 1) * (width + 1)
    assert 0 <= tiles.pixel_tiles(conv, flat, batch) * 128 - rows < 128
    covered = {
        (n // box[0], y // box[1], x // box[2]) for n, y, x in product(range(batch), range(height), range(width))
    }
    assert tiles.pixel_tiles(conv, boxed, batch) == len(covered)


def test_row_pairs_load_four_rows_where_two_rows_alone_load_six():
    """Nine taps of 256 pixels x 64 channels, counted from the filter: per column, rows of pixels and rows of taps."""
    pairs, box = (Tile(256, 64, 64, 2, 4, (1, 32, 8), True, pairs=pairs) for pairs in (True, False))
    conv, fp16 = VGG.layer("conv1_2"), tier("fp16")
    row, taps = 128 * 64 * 2, 64 * 64 * 2  # bytes of half the tile's pixels, and of one tap's weights
    assert tiles.load_bytes(pairs, fp16) * tiles.iterations(conv, pairs) == 3 * (4 * row + 3 * taps)
    assert tiles.load_bytes(box, fp16) * tiles.iterations(conv, box) == 9 * (2 * row + taps)
    for tile in (pairs, box):  # and the same arithmetic
        assert tiles.flops(tile, fp16) * tiles.iterations(conv, tile) == 2 * 256 * 64 * 9 * 64
    asked = {tile: conv_launches(conv, fp16, 10, tile, 1)[0].l2_bytes_per_clock(H100) for tile in (pairs, box)}
    assert asked[pairs] == pytest.approx(59, abs=0.5)
    assert asked[box] == pytest.approx(80, abs=0.5)


@given(
    st.sampled_from([64, 128, 256]), st.sampled_from([64, 256]), st.integers(2, 6),
    st.sampled_from([None, (1, 8, 16), (2, 4, 32)]), st.booleans(), st.integers(1, 8), st.booleans(),
)  # fmt: skip
def test_a_tiles_text_names_it(bm, bn, stages, box, swapped, split_k, pairs):
    tile = Tile(bm, bn, 64, stages, 8, box, swapped, split_k, pairs=pairs and box is not None)
    assert parse_tile(str(tile)) == tile


@pytest.mark.parametrize(
    "text", ["", "128x256", "128x256x64", "axbxc flat s4 w8", "128x256x64 round s4 w8", "64x64x64 pairs s2 w4"]
)
def test_what_is_no_tile_is_said(text):
    with pytest.raises(ValueError, match="is no tile; accepted: as in '256x64x64 box 1x32x8 swapped s2 w4'"):
        parse_tile(text)
