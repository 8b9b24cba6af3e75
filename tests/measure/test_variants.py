import pytest
import torch

from vgg_kernels.measure import variants
from vgg_kernels.measure.variants import GPU_VARIANTS, VARIANTS, build, layers, precision, refusal, select
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS
from vgg_kernels.workload.reference import relative_error
from vgg_kernels.workload.weights import reference

TABLE = network("vgg11", image=32, classes=10)
BY_NAME = {v.name: v for v in GPU_VARIANTS}


@pytest.fixture(scope="module")
def module():
    return reference(TABLE)


@pytest.mark.parametrize("kind", VARIANTS)
def test_names_are_unique_and_tiers_exist(kind):
    rows = VARIANTS[kind]
    assert len({v.name for v in rows}) == len(rows)
    assert {v.tier for v in rows} <= set(TIERS)


def test_every_tier_of_ours_is_measured():
    assert {v.tier for v in GPU_VARIANTS if v.family == "ours"} == set(TIERS)


@pytest.mark.parametrize("v", GPU_VARIANTS, ids=lambda v: v.name)
def test_the_tier_is_what_the_switches_make_of_the_operands(v):
    if v.family == "ours":
        return
    expected = "fp16" if v.dtype == "fp16" or v.autocast else "tf32" if v.cudnn_allow_tf32 else "fp32"
    assert v.tier == expected


def truncated(x):
    """fp32 with its last 13 bits cut off, as a tensor core reads it: towards zero, where tf32 rounds to nearest."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def test_a_library_that_truncates_to_tf32_is_within_its_bound_on_all_of_vgg19():
    """Emulated: as of a convolution of cuDNN's that hands fp32 operands to the tensor cores as they are."""
    table = network("vgg19")
    module, x = reference(table), torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    state, y = module.state_dict(), x
    with torch.no_grad():
        for layer in table.layers:
            weight, bias = truncated(state[f"{layer.key}.weight"]), state[f"{layer.key}.bias"]
            if layer in table.convs:
                y = torch.relu(torch.nn.functional.conv2d(truncated(y), weight, bias, padding=1))
                y = torch.nn.functional.max_pool2d(y, 2) if layer.pooled else y
            else:
                y = torch.nn.functional.linear(truncated(y.flatten(1)), weight, bias)
                y = torch.relu(y) if layer.relu else y
        error = relative_error(y, module(x))
    assert BY_NAME["ours_tf32"].bound < error < BY_NAME["eager"].bound / 2


@pytest.mark.parametrize("v", GPU_VARIANTS, ids=lambda v: v.name)
def test_no_bound_takes_zeros_or_another_tiers_answer_for_the_variants_own(v):
    assert v.bound <= 0.51  # zeros are wrong by 1
    if v.tier == "fp32":
        assert v.bound < 5e-4  # what tf32 is wrong by, with operands rounded


@pytest.mark.parametrize("v", [v for v in GPU_VARIANTS if v.mode and "max" in v.mode], ids=lambda v: v.name)
def test_max_autotune_is_measured_with_and_without_graphs(v):
    assert v.graphs == (v.mode == "max-autotune")
    twin = v.name.removesuffix("_graphs") if v.graphs else f"{v.name}_graphs"
    assert twin in BY_NAME


@pytest.mark.parametrize("name", ["eager_fp16", "eager_autocast_fp16"])
def test_fp16_by_half_and_by_autocast_rounds_as_fp16_does(module, name):
    x = torch.rand(2, 3, TABLE.image, TABLE.image, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = build(BY_NAME[name], module)(x)
        assert y.dtype == torch.float32
        assert 1e-5 < relative_error(y, module(x)) < BY_NAME[name].bound


def test_only_names_families_and_tiers_of_ours():
    assert [v.name for v in select("cuda", ("eager_tf32", "fp16x3"))] == ["ours_fp16x3", "eager_tf32"]
    assert {v.family for v in select("cuda", ("inductor",))} == {"inductor"}
    assert select("cuda") == GPU_VARIANTS


def test_an_old_gpu_is_refused_by_name_for_ours_alone():
    sentence = refusal(BY_NAME["ours_fp16"], network(), 10, "NVIDIA A100-SXM4-80GB", 80, 80e9)
    assert "NVIDIA A100-SXM4-80GB is sm_80" in sentence
    assert "sm_90" in sentence
    assert refusal(BY_NAME["eager"], network(), 10, "NVIDIA A100-SXM4-80GB", 80, 80e9) is None
    assert refusal(BY_NAME["ours_fp16"], network(), 10, "NVIDIA H100 80GB HBM3", 90, 80e9) is None


def test_too_little_memory_is_refused_with_both_figures():
    sentence = refusal(BY_NAME["eager"], network(), 64, "a small card", 90, 1e9)
    assert "1.0 GB" in sentence
    assert "batch 64" in sentence


def test_the_footprint_is_the_least_that_must_be_held():
    weights = 4 * network().parameters
    assert variants.footprint(BY_NAME["eager"], network(), 1) > weights
    assert variants.footprint(BY_NAME["eager_fp16_channels_last"], network(), 1) > 1.5 * weights


@pytest.mark.parametrize("v", GPU_VARIANTS, ids=lambda v: v.name)
def test_the_switches_are_set_and_put_back_even_after_a_failure(v):
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul

    def switches():  # PyTorch raises at the question where its old and its new switches disagree
        return cudnn.allow_tf32, matmul.allow_tf32, cudnn.fp32_precision, cudnn.conv.fp32_precision

    before, inside = switches(), []

    def fail():
        with precision(v):
            inside.append(switches())
            raise RuntimeError("of a variant")

    with pytest.raises(RuntimeError, match="of a variant"):
        fail()
    convolutions = "tf32" if v.cudnn_allow_tf32 else "none"  # cuDNN's; inductor's own read the third
    tuned = convolutions if (v.mode or "").startswith("max-autotune") else before[2]
    assert inside == [(v.cudnn_allow_tf32, v.matmul_allow_tf32, tuned, convolutions)]
    assert switches() == before


def test_eager_is_the_reference_itself(module):
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(build(BY_NAME["eager"], module)(x), module(x))


def test_half_precision_takes_and_returns_fp32_and_leaves_the_reference_alone(module):
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = torch.rand(2, 3, 32, 32)
    y = build(BY_NAME["eager_fp16_channels_last"], module)(x)
    assert y.dtype == torch.float32
    assert not torch.equal(y, module(x))
    assert (y - module(x)).norm() < 1e-2 * module(x).norm()
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_the_layers_one_after_the_other_are_the_network(module):
    x = torch.rand(2, 3, 32, 32)
    y = x
    for name, layer in layers(module).items():
        row = TABLE.layer(name)
        y = y.flatten(1) if row in TABLE.linears else y
        assert tuple(y.shape[1:]) == row.input_shape
        y = layer(y)
    assert torch.allclose(y, module(x), rtol=1e-5)
