"""Cutting: legal tiles only, all of K and every pixel in them, chosen by the estimate unless one is stored."""

from itertools import product
from math import ceil, prod

import pytest

from vgg_kernels.floor.hardware import device, devices
from vgg_kernels.kernels import tile_selection, tiles
from vgg_kernels.kernels.tile_selection import candidates, estimate_clocks, select_tile
from vgg_kernels.kernels.tiles import Tile
from vgg_kernels.workload.network import Conv, network
from vgg_kernels.workload.precision import TIERS, tier

VGG = network("vgg19")
LAYERS = VGG.layers[1:]  # the stem has a tile of its own
H100 = device("h100_sxm")


@pytest.mark.parametrize("name", TIERS)
def test_every_candidate_is_legal(name):
    for layer, batch in product(LAYERS, (1, 10)):
        legal = candidates(layer, tier(name), H100, batch)
        assert legal
        for tile in legal:
            assert tiles.shared_bytes(tile, tier(name)) <= H100.shared_bytes_per_block
            if isinstance(layer, Conv):
                assert layer.c_out % tile.bn == 0
                assert layer.c_in % tile.bk == 0
                if tile.box:
                    assert prod(tile.box) == tile.bm
                    assert tile.swapped  # a box reaches wgmma unmoved only as B
                    assert max(tile.box) <= tiles.MAX_BOX
                    assert not layer.pooled or tile.box[1] % 2 == tile.box[2] % 2 == 0  # whole windows
            assert tile.split_k <= ceil(tiles.depth(layer) / tile.bk)


@pytest.mark.parametrize("name", TIERS)
def test_shares_cover_k(name):
    for layer in LAYERS:
        for tile in candidates(layer, tier(name), H100, 10):
            steps = ceil(tiles.depth(layer) / (tile.taps * tile.bk))
            assert steps <= tiles.iterations(layer, tile) * tile.split_k < steps + tile.split_k


def test_without_a_stored_tile_the_estimate_chooses(monkeypatch):
    monkeypatch.setattr(tile_selection, "stored", dict)
    for layer in LAYERS:
        chosen = select_tile.__wrapped__(layer, tier("fp16"), "h100_sxm", 10)
        legal = candidates(layer, tier("fp16"), H100, 10)
        clocks = {tile: estimate_clocks(layer, tile, tier("fp16"), H100, 10) for tile in legal}
        assert clocks[chosen] == min(clocks.values())


def test_a_stored_tile_goes_first_and_for_its_own_case_only(monkeypatch):
    conv, mine = VGG.layer("conv4_2"), Tile(64, 64, 32, 2, 4)
    key = (tiles.shape_key(conv), "fp16", "h100_sxm", 10)
    monkeypatch.setattr(tile_selection, "stored", lambda: {key: mine})
    assert select_tile.__wrapped__(conv, tier("fp16"), "h100_sxm", 10) == mine
    for other in ((tier("bf16"), "h100_sxm", 10), (tier("fp16"), "h200", 10), (tier("fp16"), "h100_sxm", 9)):
        assert select_tile.__wrapped__(conv, *other) != mine
    assert select_tile.__wrapped__(VGG.layer("conv4_4"), tier("fp16"), "h100_sxm", 10) != mine  # it pools
    assert select_tile.__wrapped__(VGG.layer("conv4_3"), tier("fp16"), "h100_sxm", 10) == mine  # of one shape


def test_every_stored_tile_is_a_legal_one():
    by_shape = {tiles.shape_key(layer): layer for name in ("vgg11", "vgg19") for layer in network(name).layers[1:]}
    for (shape, name, key, batch), tile in tile_selection.stored().items():
        assert tile in candidates(by_shape[shape], tier(name), device(key), batch)


@pytest.mark.parametrize("key", devices())
@pytest.mark.parametrize("name", TIERS)
def test_every_card_gets_tiles(key, name):
    for layer in (VGG.layer("conv1_2"), VGG.layer("conv5_4"), VGG.layer("fc6")):
        assert select_tile(layer, tier(name), key, 1) in candidates(layer, tier(name), device(key), 1)
