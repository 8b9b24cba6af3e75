"""Whole networks from their PTX: bits, hazards and traffic. Everything that compiles runs in a process of its own."""

import pytest

TIERS = ("fp32", "fp16x3", "tf32", "fp16", "bf16", "fp8")


def integers(tier: str, batch: int) -> tuple[list[str], list[str]]:
    """Layers whose stored bits are not those of the float64 result, fed small integers, and hazards met."""
    import torch

    from vgg_kernels.emulator.execute import ExecutedVGG, fill, stored
    from vgg_kernels.emulator.group import Options
    from vgg_kernels.emulator.launch import launching
    from vgg_kernels.kernels.layout import encode
    from vgg_kernels.workload.network import Conv, Network, network
    from vgg_kernels.workload.reference import Reference, activations

    net = network("vgg11", image=32)
    draw = torch.Generator().manual_seed(5)
    module = Reference(net).requires_grad_(False)
    largest = 1 if tier == "fp8" else 2
    for parameter in module.parameters():
        parameter.copy_(torch.randint(-largest, largest + 1, parameter.shape, generator=draw))
    if tier == "fp16x3":  # a low half too: 2049 takes 12 bits
        module.features[3].weight += 2049 * (torch.rand(module.features[3].weight.shape, generator=draw) < 1 / 512)
    x = torch.randint(-3, 4, (batch, 3, 32, 32), generator=draw).float()
    model = ExecutedVGG.from_reference(module, tier)
    model.launcher.options = Options(checks=tier == "fp16")
    forward, packed = model.prepare(x)
    wrong, before = [], x
    for at, layer in enumerate(net.layers):
        alone = (
            Network("one", 32, 1000, (layer,), ())
            if isinstance(layer, Conv)
            else Network("one", 32, 1000, (), (layer,))
        )
        want = activations(module, alone, before)[layer.name]
        with launching(model.launcher):
            for launch in (each for each in forward.launches if each.layer == layer.name):
                forward.launch(launch, x, packed[layer.name])
        got = stored(forward, layer.name)
        if layer.name in forward.outputs:
            values = want.permute(0, 2, 3, 1) if want.ndim == 4 else want
            pad = forward.outputs[layer.name].pad
            if pad:
                values = torch.nn.functional.pad(values, (0, 0, 0, 1, 0, 1))
            overflow = {"fp16": 65520, "fp16x3": 65520}.get(tier, float("inf"))
            values = torch.where(values.abs() >= overflow, torch.nan, values)
            planes = [
                plane.view(mine.shape) for plane, mine in zip(encode(values.float(), model.tier), got, strict=True)
            ]
        else:
            planes = [want.float()]
        raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
        same = all(
            torch.equal(a.view(raw[a.element_size()]), b.view(raw[b.element_size()]))
            for a, b in zip(got, planes, strict=True)
        )
        wrong += [] if same else [layer.name]
        if at < len(net.layers) - 1:
            fresh = torch.randint(0, 3, want.shape, generator=draw).float()
            fill(forward.outputs[layer.name], fresh, forward)
            before = fresh.flatten(1) if layer is net.convs[-1] else fresh
            before = fresh
    return wrong, sorted({kind for each in model.launcher.executed for kind in each.report.kinds})


# Triton's own doing: zeros written to the accumulators after the fence; ptxas removes the moves (no hazard in SASS).
KNOWN = {"wgmma on registers written since the last wgmma.fence"}


@pytest.mark.parametrize("batch", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("tier", TIERS)
def test_small_integers_give_the_exact_bits(compiling, tier, batch):
    wrong, hazards = compiling(integers, tier, batch)
    assert wrong == []
    assert set(hazards) <= KNOWN


def both_ways(tier: str) -> list[tuple[str, float]]:
    """Digest of the logits and their error, copies and products applied late and early."""
    from vgg_kernels.emulator.execute import run, sha256
    from vgg_kernels.emulator.group import Options
    from vgg_kernels.workload.inputs import draw
    from vgg_kernels.workload.network import network
    from vgg_kernels.workload.weights import reference

    net = network("vgg11", image=32)
    found = [
        run(reference(net, "dyadic"), net, tier, draw(net, 1, "dyadic"), options=Options(early=early))
        for early in (False, True)
    ]
    return [(sha256(each.logits), each.relative_error) for each in found]


@pytest.mark.parametrize(("tier", "error"), [("fp16", 2e-3), pytest.param("fp16x3", 3e-6, marks=pytest.mark.slow)])
def test_early_and_late_effects_give_the_same_bits(compiling, tier, error):
    (late, off), (early, _) = compiling(both_ways, tier)
    assert late == early
    assert off < error


def one_layer() -> dict:
    from vgg_kernels.emulator.execute import document, run
    from vgg_kernels.emulator.group import Options
    from vgg_kernels.kernels.plan import plan
    from vgg_kernels.workload.inputs import draw
    from vgg_kernels.workload.network import network
    from vgg_kernels.workload.weights import reference

    net = network("vgg11", image=64)
    found = run(
        reference(net, "dyadic"), net, "fp16", draw(net, 1, "dyadic"), layer="conv4_2", options=Options(exact=False)
    )
    launches = [each for each in plan(net, "fp16", 1) if each.layer == "conv4_2"]
    return {
        "document": document(found, tier="fp16", network=net, batch=1, options=Options(exact=False)),
        "bytes": [each.load_bytes_per_iteration * each.iterations * each.ctas for each in launches],
        "clocks": [each.flops_per_iteration * each.iterations * each.ctas // 4096 for each in launches],
    }


def test_one_layer_does_what_the_plan_says(compiling):
    found = compiling(one_layer)
    document = found["document"]
    rows = document["launches"]
    assert [row["layer"] for row in rows] == ["conv4_2"] * len(rows)
    assert rows[0]["counts"]["bulk_load_bytes"] == found["bytes"][0]
    assert rows[0]["wgmma_clocks"] == found["clocks"][0]
    assert rows[-1]["relative_error"] < 1e-3
    assert document["hazards"] == 0
    assert document["logits_sha256"] is None


def another_card(dropped: int) -> str | None:
    """What is said of a second emulated card whose fp16 sums have one bit less, or none."""
    from dataclasses import replace

    from vgg_kernels.emulator.execute import ExecutedVGG, stored
    from vgg_kernels.emulator.group import Options
    from vgg_kernels.emulator.launch import launching
    from vgg_kernels.emulator.predicted import first_difference
    from vgg_kernels.emulator.tensor_core import UNITS
    from vgg_kernels.workload.inputs import draw
    from vgg_kernels.workload.network import network
    from vgg_kernels.workload.weights import reference

    net = network("vgg11", image=32)
    module, x = reference(net, "dyadic"), draw(net, 1, "dyadic")
    card = ExecutedVGG.from_reference(module, "fp16")
    card.launcher.options = Options(unit=replace(UNITS["fp16"], bits=25 - dropped))
    forward, packed = card.prepare(x)
    with launching(card.launcher):
        forward.run(x, packed)
    outputs = {layer.name: stored(forward, layer.name) for layer in net.layers}
    found = first_difference(module, net, "fp16", x, outputs, exponents=card.exponents)
    return found and str(found)


def test_a_card_that_adds_otherwise_is_told_by_layer_and_place(compiling):
    assert compiling(another_card, 0) is None
    said = compiling(another_card, 12)
    assert "values differ, the first at [0, " in said
    assert "on the card" in said


def test_a_process_that_interprets_is_told_so():
    from vgg_kernels.emulator.group import Options
    from vgg_kernels.emulator.launch import Launcher, launching

    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=0"), launching(Launcher(Options())):
        pass
