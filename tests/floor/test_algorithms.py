import numpy as np
import pytest

from vgg_kernels.floor.algorithms import FFT_TILES, direct, fft, winograd
from vgg_kernels.workload.network import network

VGG = network("vgg19")
# Lavin and Gray's matrices, output side: y = A^T [(G g) * (B^T d)]
B4 = [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
      [0, 4, 0, -5, 0, 1]]  # fmt: skip
G4 = [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6],
      [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]]  # fmt: skip
A4 = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]


def test_thirty_six_products_are_enough_for_sixteen_outputs():
    # the count that the Winograd cost rests on, held against the convolution itself
    rng = np.random.default_rng(0)
    d, g = rng.normal(size=(6, 6)), rng.normal(size=(3, 3))
    b, a, f = np.array(B4), np.array(A4), np.array(G4)
    products = (f @ g @ f.T) * (b @ d @ b.T)
    want = [[(d[y : y + 3, x : x + 3] * g).sum() for x in range(4)] for y in range(4)]
    assert products.size == 36
    np.testing.assert_allclose(a @ products @ a.T, want, rtol=1e-10)


@pytest.mark.parametrize(("m", "gain"), [(2, 2.25), (4, 4.0)])
def test_winograd_saves_its_textbook_factor_where_tiles_divide_the_image(m, gain):
    conv = VGG.layer("conv3_2")  # 56 x 56
    assert direct(conv, 10).flops / winograd(conv, 10, m, stored=False).flops == pytest.approx(gain)


def test_ragged_tiles_cost_winograd_part_of_its_gain():
    conv = VGG.layer("conv5_1")  # 14 x 14 in tiles of 4: sixteen of 16, not 12.25
    assert direct(conv, 1).flops / winograd(conv, 1, 4, stored=False).flops == pytest.approx(4 * 196 / 256)


def test_stored_transforms_move_the_tile_overlap():
    conv = VGG.layer("conv3_2")
    numbers = 10 * 56 * 56 * (256 + 256)
    assert winograd(conv, 10, 4, stored=True).intermediates == pytest.approx(2 * numbers * 36 / 16)
    assert winograd(conv, 10, 4, stored=False).intermediates == 0


def test_fft_reads_far_more_weights_than_it_saves_products():
    conv = VGG.layer("conv5_1")
    for tile in FFT_TILES:
        assert fft(conv, 10, tile).weights > 8 * direct(conv, 10).weights
