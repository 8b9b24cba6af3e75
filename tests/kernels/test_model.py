"""The module: whose weights it takes, what it refuses, and that no change of weights or of mode goes unseen."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from vgg_kernels.kernels.model import VGG
from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS
from vgg_kernels.workload.reference import Reference, activations, oracle, relative_error
from vgg_kernels.workload.weights import reference

VGG11 = network("vgg11", image=32, classes=10)


def built(narrow, module, tier="fp16"):
    model = VGG(narrow, tier)
    model.load_state_dict(module.state_dict())
    return model


@pytest.fixture(scope="module")
def x():
    return torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def model(narrow, alive):
    return built(narrow, alive)


@pytest.fixture(scope="module")
def logits(model, x):
    return model(x)


@pytest.fixture(scope="module")
def vgg11():
    return reference(VGG11)


class Foreign(nn.Module):
    """As torchvision and KernelBench write a VGG: the same keys, another class."""

    def __init__(self, module):
        super().__init__()
        self.features = nn.Sequential(*copy.deepcopy(list(module.features)))
        self.classifier = nn.Sequential(*copy.deepcopy(list(module.classifier)))


@pytest.mark.parametrize("wrap", [lambda module: module, Foreign], ids=["reference", "foreign"])
def test_weights_are_copied_from_any_module_with_these_keys(vgg11, wrap):
    source = wrap(vgg11)
    model = VGG.from_reference(source, tier="bf16")
    assert model.network == VGG11
    assert model.tier.name == "bf16"
    assert list(model.state_dict()) == list(source.state_dict())
    for name, value in model.state_dict().items():
        assert torch.equal(value, source.state_dict()[name])
        assert value.data_ptr() != source.state_dict()[name].data_ptr()
    assert not model.training


def test_a_module_that_is_no_vgg_is_refused(vgg11):
    with pytest.raises(ValueError, match=r"1 convolutions.*accepted: vgg11 with 8 convolutions"):
        VGG.from_reference(nn.ModuleDict({"features": nn.Sequential(nn.Conv2d(3, 64, 3))}))
    normed = copy.deepcopy(Foreign(vgg11))
    normed.features[3] = nn.Conv2d(64, 128, 5)
    with pytest.raises(ValueError, match=r"features.3.weight: \(128, 64, 5, 5\), accepted \(128, 64, 3, 3\)"):
        VGG.from_reference(normed)
    with pytest.raises(ValueError, match="unknown tier 'int8'; accepted: fp32"):
        VGG.from_reference(vgg11, tier="int8")


def test_a_state_dict_that_does_not_fit_is_torchs_error_with_both_shapes(narrow, vgg11):
    with pytest.raises(RuntimeError, match=r"classifier.0.weight.*\[4096, 512\].*\[256, 256\]"):
        VGG(narrow).load_state_dict(vgg11.state_dict())


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_is_within_its_rounding_of_float64(narrow, alive, x, tier):
    """Roundings of eight layers are independent: sqrt(8) times one layer's 0.71 u; the accumulation adds fp32's."""
    model = built(narrow, alive, tier)
    seen = model.trace(x)
    want = activations(alive, narrow, x)
    assert list(seen) == list(want)
    for depth, (name, values) in enumerate(seen.items(), start=1):
        assert values.dtype == torch.float32
        assert values.shape == want[name].shape
        assert relative_error(values, want[name]) <= depth**0.5 * (TIERS[tier].unit_roundoff + 2e-7)


def test_a_traced_pass_is_the_pass(model, x, logits):
    assert torch.equal(model.trace(x)["fc8"], logits)


def test_fp16x3_is_as_accurate_as_eager_fp32(vgg11):
    """On a real VGG, within 1.5 times of eager's own error: KernelBench's bar for the tier that replaces fp32."""
    images = draw(VGG11, 1, "normal", seed=1)
    want = oracle(vgg11, VGG11, images)
    got = VGG.from_reference(vgg11, "fp16x3")(images)
    assert relative_error(got, want) <= 1.5 * relative_error(vgg11(images), want)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda m, x: (m, x.half()), "dtype is torch.float16; accepted: float32"),
        (lambda m, x: (m, x.to("meta")), "input is on meta and the model on cpu"),
        (lambda m, x: (m, x.expand(1, 3, 16, 16)[:, :, :8]), r"shape is \[1, 3, 8, 16\]; accepted.*3, 16, 16\]"),
        (lambda m, x: (copy.deepcopy(m).double(), x), "parameters are torch.float64; accepted: float32"),
        (lambda m, x: (copy.deepcopy(m).to("meta"), x.to("meta")), "model is on meta"),
        (lambda m, x: (m, x.expand(2**31 // 17**2 + 1, 3, 16, 16)), "at most 7430739 images at once"),
    ],
    ids=["dtype", "device", "size", "parameters", "meta", "2^31 rows"],
)
def test_what_cannot_be_run_is_a_clear_error(model, x, spoil, said):
    subject, images = spoil(model, x)
    with pytest.raises(ValueError, match=said):
        subject(images)


def test_strided_and_expanded_images_give_the_bits_of_contiguous_ones(model, x, logits):
    wide = torch.full((1, 3, 20, 21), float("nan")).to(memory_format=torch.channels_last)
    wide[:, :, 2:18, 3:19] = x
    window = wide[:, :, 2:18, 3:19].expand(2, -1, -1, -1)
    assert window.stride() == (0, 1, 63, 3)
    assert torch.equal(model(window), logits.expand(2, -1))


def test_a_change_of_weights_is_never_missed(narrow, alive, x, logits):
    changing = built(narrow, alive)
    assert torch.equal(changing(x), logits)
    changing.classifier[6].weight.mul_(2)
    with torch.inference_mode():
        changing.classifier[6].bias.mul_(2)
        assert torch.equal(changing(x), 2 * logits)
        changing.load_state_dict(alive.state_dict())
        assert torch.equal(changing(x), logits)
    changing.classifier[6].bias.data.add_(1)  # not counted by torch
    changing.repack()
    assert not torch.equal(changing(x), logits)


def test_a_new_weight_at_an_old_address_is_not_missed(narrow, alive, x):
    """Freed memory comes back at once: neither address nor version would tell the new weight from the old."""
    replaced = built(narrow, alive)
    layer = replaced.classifier[0]
    for i in range(1, 25):
        del layer.weight
        layer.weight = nn.Parameter(torch.full((256, 256), float(i)), requires_grad=False)
        replaced.prepare(x)
        packed = replaced._packed["fc6"]
        assert (packed.planes[0].float() * packed.alpha[:, None]).mean() == i


def test_a_new_layer_is_not_missed(narrow, alive, x, logits):
    model = built(narrow, alive)
    model(x)
    old = model.classifier[6]
    model.classifier[6] = nn.Linear(old.in_features, old.out_features).requires_grad_(False)
    model.classifier[6].load_state_dict({name: 2 * value for name, value in old.state_dict().items()})
    assert torch.equal(model(x), 2 * logits)


def test_parameters_that_cannot_be_watched_are_refused(narrow, x):
    with torch.inference_mode():
        born = VGG(narrow)
    with pytest.raises(ValueError, match=r"made under torch\.inference_mode"):
        born(x)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"])
def test_a_copy_is_a_model_of_its_own(model, x, logits, copied):
    other = copied(model)
    other.classifier[6].weight.zero_()
    assert torch.equal(other(x)[0], other.classifier[6].bias)
    assert model.classifier[6].weight.any()
    assert model._forwards
    assert not other._forwards.keys() - model._forwards.keys()


def test_a_callers_graph_has_its_workspace_and_weights_for_good(narrow, alive, x, logits):
    """What a captured graph points to is never freed, rewritten or handed out again."""
    model = built(narrow, alive)
    model(x)
    forward, packed = model.lend(x)
    assert not torch.equal(model(-x), logits)
    assert torch.equal(forward.logits, logits)  # an eager call has a workspace of its own
    for parameter in model.classifier[6].parameters():
        parameter.mul_(2)
    assert torch.equal(model(x), 2 * logits)
    assert torch.equal(model.lend(x)[0].record(x, model._packed), 2 * logits)
    assert len({id(f) for f, _ in model._lent}) == 2
    assert model._lent[0] == (forward, packed)
    assert torch.equal(forward.logits, logits)  # no later call has written to it
    assert torch.equal(forward.record(x, packed), logits)  # and a replay would still find its weights
    assert copy.deepcopy(model)._lent == []


@pytest.mark.parametrize("what", ["never called", "another batch", "other weights", "captured before"])
def test_a_capture_needs_a_call_before_it(narrow, alive, x, what):
    model = built(narrow, alive)
    if what != "never called":
        model(x.expand(2, -1, -1, -1) if what == "another batch" else x)
    if what == "other weights":
        model.classifier[6].bias.mul_(2)
    if what == "captured before":
        model.lend(x)
    with pytest.raises(RuntimeError, match="call it once on such a batch, then capture"):
        model.lend(x)


def test_threads_take_turns(narrow, alive, x):
    model = built(narrow, alive)
    images = [x * factor for factor in (1, 2, 3, 4)]
    want = [model(image) for image in images]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(model, images * 3))
    assert all(torch.equal(a, b) for a, b in zip(got, want * 3, strict=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_is_one_node_of_a_compiled_graph(model, x, logits, backend):
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(x), logits)


def test_nothing_is_recorded_for_autograd(model, x, logits):
    got = model(x.clone().requires_grad_())
    assert torch.equal(got, logits)
    with pytest.raises(RuntimeError, match=r"autograd|does not require grad"):
        got.sum().backward()


def test_calibrated_scales_change_no_result_that_was_in_range(narrow, alive, x, logits):
    calibrated = built(narrow, alive).calibrate(x)
    assert any(calibrated.exponents.values())
    assert relative_error(calibrated(x), logits) < 1e-4  # where a scale of 1 left subnormals, it is the better one
    assert built(narrow, alive, "bf16").calibrate(x).exponents == {}


def test_calibration_rescues_activations_past_fp16(narrow, alive, x):
    loud = copy.deepcopy(alive)
    for key, factor in (("features.0", 1e6), ("features.7", 1e-6)):
        layer = loud.get_submodule(key)
        layer.weight.mul_(factor)
        layer.bias.mul_(factor)
    want = oracle(loud, narrow, x)
    plain = built(narrow, loud)
    assert not plain(x).isfinite().any()
    assert relative_error(plain.calibrate(x)(x), want) <= 3 * TIERS["fp16"].unit_roundoff


def test_the_workspace_has_a_size(model):
    one, ten = model.workspace_bytes(1), model.workspace_bytes(10)
    assert 16 * 16 * 3 * 4 < one < ten < 10 * one + 2**20
    with pytest.raises(ValueError, match="batch 0 is not accepted"):
        model.workspace_bytes(0)


def test_an_uninitialised_model_is_the_references_shape(narrow):
    assert VGG(narrow).state_dict().keys() == Reference(narrow).state_dict().keys()
