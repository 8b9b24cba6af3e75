"""What is wrong with an output, and where."""

import pytest

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.gate import verify
from vgg_kernels.correctness.suite import prepare
from vgg_kernels.workload.precision import TIERS


def test_wrong_images_and_logits_are_named(refused, wrapped):
    def change(model, x):
        y = model(x)
        y[-1, 128:160] += 1
        return y

    assert refused(wrapped(change))[0].detail == "image 2, logits 128-159"


def test_the_first_wrong_layer_and_its_rows_are_named(refused):
    class OneTileMissing(Emulation):
        def layer(self, layer, x):
            y = super().layer(layer, x)
            if layer.name == "conv3":
                y[-1, :, 4:6] = 0
            return y

    failures = refused(lambda reference: OneTileMissing(reference, "fp16"))
    assert "first wrong layer conv3: image 2, rows 4-5" in failures[0].detail
    by_name = [f.name for f in failures if f.name.startswith("layer ")]
    assert by_name == ["layer conv3"]  # the layers after it follow from what they were given


@pytest.mark.parametrize("name", TIERS)
def test_one_wrong_pixel_of_a_layer_is_found(tiny_network, name):
    class OnePixel(Emulation):
        def layer(self, layer, x):
            y = super().layer(layer, x)
            if layer.name == "conv3":
                y[0, :, 3, 2] = 0
            return y

    verdict = verify(lambda model: OnePixel(model, name), tiny_network, name, effort="single", seed=5)
    local = [f for f in verdict.failures if f.name.startswith("layer ")]
    assert [(f.name, f.detail) for f in local] == [("layer conv3", "wrong at image 0, row 3, column 2")]


def test_fp16x3_has_fp32s_error_bound(tiny_network):
    class Rougher(Emulation):
        def forward(self, x):
            return super().forward(x) * (1 + 2e-6)

    verdict = verify(lambda model: Rougher(model, "fp16x3"), tiny_network, "fp16x3", effort="single", seed=5)
    assert [f.name for f in verdict.failures] == ["values", "trace ends in the logits"][:1]
    (fp32,) = prepare(tiny_network, "fp32", "single", seed=5).weight_sets[0].cases
    assert verdict.failures[0].error_bound == float(fp32.error_bound["fc8"])
