"""The exported file keeps KernelBench's rules and computes the network."""

import pytest
import torch

from vgg_kernels.kernels.plan import plan
from vgg_kernels.report.publish.export import check, crop, load, source, violations
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import Conv, Linear, Network, network
from vgg_kernels.workload.precision import TIERS
from vgg_kernels.workload.weights import reference


@pytest.mark.parametrize("name", TIERS)
def test_the_real_problems_file_keeps_the_rules_and_is_python(name):
    text = source(network("vgg19"), name, 10)
    assert violations(text) == []
    compile(text, "model_new.py", "exec")
    assert "import vgg" not in text
    assert text.count("@triton.jit") >= 5


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("try :\n    x()", "line 1 has an exception handler"),
        ("# one forward pass", "line 1 has the empty statement's keyword"),
        ("x = 1\nfrom vgg_kernels import y", "line 2 has this package"),
        ("import torch", "no Triton kernel"),
    ],
)
def test_what_kernelbench_refuses_is_found(text, what):
    assert what in violations(text)


def test_seed_42_gives_the_references_parameters(tmp_path):
    subject = network("vgg11", image=32)
    path = tmp_path / "model_new.py"
    path.write_text(source(subject, "fp16", 1))
    torch.manual_seed(42)
    candidate = load(path)(1000)
    want = reference(subject, "kernelbench").state_dict()
    got = candidate.state_dict()
    assert sorted(got) == sorted(want)
    assert all(torch.equal(got[key], value) for key, value in want.items())


def test_other_batches_and_class_counts_are_refused(tmp_path):
    path = tmp_path / "model_new.py"
    path.write_text(source(network("vgg11", image=32, classes=10), "fp16", 2))
    model_new = load(path)
    with pytest.raises(ValueError, match="1000 classes; this file was written for 10"):
        model_new(1000)
    with pytest.raises(ValueError, match="a batch of 3 images; this file was written for 2"):
        model_new(10)(torch.zeros(3, 3, 32, 32))
    with pytest.raises(UnknownName, match="tier 'fp12'"):
        source(network("vgg11", image=32), "fp12")


def test_the_file_passes_its_own_check(tmp_path):
    """On a network of every kernel (the first layer pools behind the stem) that is interpreted in a second."""
    convs = (
        Conv("conv1", "features.0", 3, 64, 16, 16, pooled=True),
        Conv("conv2", "features.3", 64, 64, 8, 8, pooled=False),
        Conv("conv3", "features.5", 64, 64, 8, 8, pooled=True),
    )
    linears = (
        Linear("fc6", "classifier.0", 1024, 128, relu=True),
        Linear("fc7", "classifier.3", 128, 128, relu=True),
        Linear("fc8", "classifier.6", 128, 10, relu=False),
    )
    subject = Network("narrow", 16, 10, convs, linears)
    assert {launch.kernel for launch in plan(subject, "fp16", 1)} == {"stem", "maxpool", "conv3x3", "reduce", "linear"}
    path = tmp_path / "model_new.py"
    path.write_text(source(subject, "fp16", 1))
    outcome = check(path, subject, "fp16", 1)
    assert outcome.passed, outcome


@pytest.mark.parametrize("name", TIERS)
def test_the_real_problems_crop_has_its_layers_and_tiles(name):
    real = [launch for launch in plan(network("vgg19"), name, 10) if launch.flops_per_iteration]
    small, launches = crop(network("vgg19"), name, 10)
    cropped = [launch for launch in launches if launch.flops_per_iteration]
    assert [(launch.layer, launch.kernel, launch.tile) for launch in cropped] == [
        (launch.layer, launch.kernel, launch.tile) for launch in real
    ]
    assert [layer.parameters for layer in small.convs] == [layer.parameters for layer in network("vgg19").convs]
    assert {launch.kernel for launch in launches} >= {launch.kernel for launch in plan(network("vgg19"), name, 10)}
    assert {launch.batch for launch in launches} == {1}


def test_the_real_problems_crop_passes_its_own_check(tmp_path):
    """VGG19's nineteen layers under the tiles that its file carries, interpreted: some twenty seconds of one core."""
    small, launches = crop(network("vgg19"), "fp16", 10)
    path = tmp_path / "model_new.py"
    path.write_text(source(small, "fp16", 1, launches))
    outcome = check(path, small, "fp16", 1)
    assert outcome.passed, outcome
