"""Situations from public bug reports, each a test named after what happened, with its source.

Those of ratios and rankings (14, 20) are held by ``records/test_ranking.py``, those of stored notebooks (16, 17) by
``test_notebooks.py``. Interpreted forwards of our own kernels are dear: what needs one shares the two calls of
``kernels/test_semantics.py``.
"""

import os
import subprocess
import sys

import pytest
import torch

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.gate import examine
from vgg_kernels.correctness.kernelbench import TOLERANCE, Rule, certify
from vgg_kernels.correctness.suite import prepare
from vgg_kernels.floor.hardware import device_by_torch_name
from vgg_kernels.kernels.model import VGG
from vgg_kernels.kernels.plan import plan
from vgg_kernels.measure.variants import GPU_VARIANTS
from vgg_kernels.records.statistics import samples_needed, tail_ms
from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network
from vgg_kernels.workload.weights import reference

SMALL = network("vgg11", image=32, classes=10)


@pytest.fixture(scope="module")
def suite(tiny_network):
    return prepare(tiny_network, "fp16", "quick", seed=21)


def killed(suite, change):
    """The failed checks of a right network inside ``change(model, x)``."""

    def build(model):
        right = Emulation(model, "fp16")
        return lambda x: change(right, x)

    verdict = examine(build, suite)
    assert not verdict.passed
    return {check.name: check.detail for check in reversed(verdict.failures)}


def test_01_zeros_pass_where_the_reference_is_below_atol(suite):
    """KernelBench #165."""
    deep = network("vgg19", image=32)
    certificate = certify(deep, tolerance=1e-2)
    assert certificate.vacuous
    assert "values" in killed(suite, lambda model, x: torch.zeros(len(x), 300))


def test_02_candidate_zeroes_its_input_then_returns_zeros(suite):
    """KernelBench PR #82."""
    assert killed(suite, lambda model, x: model(x.zero_()))["input unchanged"] == "the input was written to"


def test_03_candidate_returns_memory_that_holds_the_reference_result(suite):
    """KernelBench PR #82."""
    assert killed(suite, lambda model, x: torch.empty(len(x), 300))["values"].endswith("not finite")


def test_04_kernel_skips_one_tile_and_the_report_names_the_rows(suite):
    """tritonbench PR #409."""

    class Skips(Emulation):
        def layer(self, layer, x):
            y = super().layer(layer, x)
            if layer.name == "conv2":
                y[0, :, 8:16, 16:24] = 0
            return y

    verdict = examine(lambda model: Skips(model, "fp16"), suite)
    assert "first wrong layer conv2: image 0, rows 8-15, columns 16-23" in verdict.failures[0].detail


@pytest.mark.parametrize(
    ("key", "found"),
    [(lambda x: x.data_ptr(), "values"), (lambda x: x.cpu().numpy().tobytes(), "weights changed, in place")],
    ids=["address", "content"],
)
def test_05_output_memoised(suite, key, found):
    """reference-kernels PR #160, #167: by address, and by content, which shows when the weights change."""

    class Remembers(Emulation):
        def forward(self, x):
            memory = self.__dict__.setdefault("memory", {})
            place = key(x), x.shape
            if place not in memory:
                memory[place] = super().forward(x)
            return memory[place].clone()

    verdict = examine(lambda model: Remembers(model, "fp16"), suite)
    assert verdict.failures[0].name == found


def test_06_nan_never_counts_as_a_match(suite):
    """pygpubench PR #7."""
    assert "not finite" in killed(suite, lambda model, x: model(x) * float("nan"))["values"]


def test_07_precision_flags_and_tier_are_columns_of_every_row():
    """CUDA-Agent #16, pytorch #173902."""
    for variant in GPU_VARIANTS:
        assert {"tier", "cudnn_allow_tf32", "matmul_allow_tf32"} <= set(variant.columns)
    assert {v.tier for v in GPU_VARIANTS if v.cudnn_allow_tf32 and v.dtype == "fp32" and "autocast" not in v.name} == {
        "tf32"
    }


def test_08_first_output_keeps_its_values_over_the_next_call(suite):
    """pytorch #144386."""
    buffers = {}

    def reuse(model, x):
        y = model(x)
        return buffers.setdefault(len(x), torch.empty_like(y)).copy_(y)

    found = killed(suite, reuse)
    assert found["no aliasing"] == "the output shares memory with an earlier output"
    assert found["outputs survive"].startswith("later calls changed output 0")


@pytest.mark.gpu
def test_08_first_output_keeps_its_values_under_our_cuda_graph():
    """pytorch #144386, on the card."""
    model = VGG.from_reference(reference(SMALL).cuda(), tier="fp16")
    x = draw(SMALL, 2, "normal", 0).cuda()
    first = model(x)
    kept = first.clone()
    model(draw(SMALL, 2, "normal", 1).cuda())
    assert torch.equal(first, kept)


@pytest.mark.gpu
def test_08_a_callers_graph_goes_on_with_what_it_was_captured_with():
    """pytorch #144386, on the card: neither new weights nor eager calls reach into a captured graph."""
    model = VGG.from_reference(reference(SMALL).cuda(), tier="fp16")
    x = draw(SMALL, 2, "normal", 0).cuda()
    want = model(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = model(x)
    with torch.no_grad():
        model.classifier[6].weight.zero_()
    changed = model(x)
    model(torch.full_like(x, 1e3))
    graph.replay()
    assert torch.equal(captured, want)
    assert torch.equal(changed[0], model.classifier[6].bias)
    with (
        pytest.raises(RuntimeError, match="call it once on such a batch, then capture"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        model(x[:1])


@pytest.mark.gpu
def test_08_it_runs_inside_what_reduce_overhead_makes():
    """Inductor's own graphs leave the forward outside."""
    model = VGG.from_reference(reference(SMALL).cuda(), tier="fp16")
    compiled = torch.compile(lambda x: model(x + 1) * 2, mode="reduce-overhead")
    for seed in range(4):
        x = draw(SMALL, 2, "normal", seed).cuda()
        assert torch.equal(compiled(x), model(x + 1) * 2)


def test_09_weights_changed_between_two_calls(suite):
    """botorch #1471: load_state_dict, and in place."""

    class Stale(Emulation):
        def weight(self, layer):
            return self.__dict__.setdefault("packed", {}).setdefault(layer.name, super().weight(layer).clone())

    names = [check.name for check in examine(lambda model: Stale(model, "fp16"), suite).failures]
    assert names == ["weights changed, in place", "weights changed, load_state_dict"]


def test_10_model_and_input_on_different_devices_name_both():
    """triton #2441, #174."""
    model = VGG.from_reference(reference(SMALL), tier="fp16")
    where = next(model.parameters()).device
    with pytest.raises(ValueError, match=f"the input is on meta and the model on {where}"):
        model(torch.zeros(1, 3, 32, 32, device="meta"))


@pytest.mark.gpu
def test_10_cpu_input_to_a_model_on_the_card():
    """triton #2441, #174, on the card."""
    model = VGG.from_reference(reference(SMALL).cuda(), tier="fp16")
    with pytest.raises(ValueError, match="the input is on cpu and the model on cuda"):
        model(draw(SMALL, 1))


def test_11_one_nan_pixel_reaches_exactly_its_image(suite):
    """pytorch #7645."""
    swallowed = killed(suite, lambda model, x: model(torch.nan_to_num(x, nan=0.0)))
    assert swallowed["NaN is kept"] == "image 1: 300 finite logits, torch has 0"
    spread = killed(suite, lambda model, x: model(x + 0 * x.sum()))
    assert spread["images do not mix"] == "image 0, not finite"


def test_12_a_batch_whose_index_passes_2_to_the_31_is_refused():
    """flash-linear-attention #1080."""
    largest = (2**31 - 1) // 225**2
    with pytest.raises(ValueError, match=f"at most {largest} images at once"):
        plan(network("vgg19"), "fp16", largest + 1)
    assert plan(network("vgg19"), "fp16", largest)[-1].layer == "fc8"


@pytest.mark.gpu
def test_12_a_batch_whose_elements_pass_2_to_the_31_is_right():
    """flash-linear-attention #1080, on the card: more than 2^31 elements in the first layer's output."""
    model = reference(SMALL).cuda()
    batch = 2**31 // (64 * 33 * 33) + 1
    x = draw(SMALL, 1, "normal", 3).cuda().repeat(batch, 1, 1, 1)
    x[-1] = draw(SMALL, 1, "normal", 4).cuda()[0]
    got = VGG.from_reference(model, tier="fp16")(x)
    want = model(x[-2:])
    assert torch.allclose(got[-2:], want, rtol=1e-2, atol=1e-2 * float(want.abs().max()))


def test_13_unusual_strides_give_the_same_values(tiny_network):
    """pytorch #179442: channels_last, a slice of a larger batch, an expanded image."""
    full = prepare(tiny_network, "fp16", "full", seed=3)
    weight_set = next(p for p in full.weight_sets if p.layouts)
    assert [layout.name for layout in weight_set.layouts] == ["channels_last", "strided slice", "expanded"]
    for layout in weight_set.layouts:
        assert torch.equal(layout.view(layout.case.x), layout.case.x)
    flat = lambda x: torch.as_strided(x, x.shape, torch.empty(x.shape, device="meta").stride())  # noqa: E731
    short = [
        layout.name for layout in weight_set.layouts if layout.name != "expanded"
    ]  # an expanded one has no memory to misread
    verdict = examine(lambda model: lambda x: Emulation(model, "fp16")(x if x.stride(0) == 0 else flat(x)), full)
    assert [f"layout: {name}" for name in short] == [check.name for check in verdict.failures]


def test_15_a_gpu_without_a_data_sheet_has_no_floor():
    """autokernel #5."""
    with pytest.raises(UnknownName, match=r"no data sheet for the GPU 'GTX 1050'.*devices\.toml"):
        device_by_torch_name("GTX 1050")


def test_18_the_package_imports_where_no_gpu_is(tmp_path):
    """triton #6150, pytorch #28111: no GPU, no triton, no matplotlib, from another folder."""
    blocked = (
        "import sys; sys.modules['triton'] = sys.modules['matplotlib'] = None; import vgg_kernels; print('imported')"
    )
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", blocked], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "imported\n", done.stderr


def test_19_tails_only_from_enough_samples():
    """rtp-llm PR #1231: a 95th percentile of 15 samples."""
    assert tail_ms([1.0] * 15, 0.95) is None
    assert tail_ms([1.0] * samples_needed(0.95), 0.95) == 1.0


def test_a_right_network_survives_all_of_it(suite, tiny_network):
    """Without which none of the above would say anything."""
    assert examine(lambda model: Emulation(model, "fp16"), suite).passed
    assert Rule(tiny_network, trials=1, batch=1).accepts(lambda model: Emulation(model, "fp16"), (TOLERANCE,)) == (
        True,
    )
