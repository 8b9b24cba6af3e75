"""Images that find mistakes, and the strides in which they may come."""

import torch

from vgg_kernels.correctness.images import DUSK, LAYOUTS, mixed, one_hot, side_lit


def test_light_falls_evenly_in_octaves_from_the_left():
    lit = side_lit(torch.ones(1, 3, 4, 7), 32.0)
    columns = lit[0, 0, 0].log2()
    assert columns[0] == 5
    assert columns[-1] == torch.tensor(32 * DUSK).log2()
    assert torch.allclose(columns.diff(), columns.diff()[0].expand(6))
    assert torch.equal(side_lit(torch.ones(1, 3, 4, 7), 32.0, other_side=True), lit.flip(3))


def test_one_pixel_is_lit_at_every_corner_and_border_and_in_the_middle(tiny_network):
    x = one_hot(tiny_network, 10, 7.0)
    places = [tuple(torch.nonzero(image)[0, 1:].tolist()) for image in x[:9]]
    assert len(set(places)) == 9
    assert all({row, column} <= {0, 32, 63} for row, column in places)
    assert x.sum() == 9 * 7
    assert not x[9].any()


def test_mixed_images_are_all_different(tiny_network):
    x = mixed(tiny_network, 7, 3)
    assert all(not torch.equal(x[i], x[j]) for i in range(7) for j in range(i))


def test_strides_are_unusual_and_content_is_not():
    x = torch.arange(3 * 3 * 4 * 5.0).view(3, 3, 4, 5)
    for name, view in LAYOUTS.items():
        y = view(x.clone())
        assert torch.equal(y, x[:1].expand_as(x) if name == "expanded" else x)
        assert y.stride() != x.stride()
    assert LAYOUTS["channels_last slice"](x).storage_offset() > 0
    assert LAYOUTS["channels_last slice"](x).stride(0) == 2 * x[0].numel()
