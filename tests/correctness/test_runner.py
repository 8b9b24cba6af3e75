"""Candidates that break the contract, or change what is not theirs."""

import gc
from itertools import count
from threading import Timer

import pytest
import torch

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.gate import examine, verify
from vgg_kernels.correctness.test_case import TestCase


@pytest.mark.parametrize(
    ("change", "name", "detail"),
    [
        (lambda m, x: 1 / 0, "runs", "raised ZeroDivisionError: division by zero"),
        (lambda m, x: m(x)[:, :-1], "contract", "the output's shape is [3, 299]; accepted: [3, 300]"),
        (lambda m, x: m(x).double(), "contract", "the output's dtype is torch.float64; accepted: torch.float32"),
        (lambda m, x: m(x).to("meta"), "contract", "the output is on meta, the input on cpu"),
        (lambda m, x: m(x).to_sparse(), "contract", "the output's layout is torch.sparse_coo; accepted: torch.strided"),
        (lambda m, x: torch.nn.Parameter(m(x)), "contract", "accepted: a plain torch.Tensor"),
        (lambda m, x: m(x).tolist(), "contract", "the output is a builtins.list"),
        (lambda m, x: m(x.neg_()), "input unchanged", "the input was written to"),
        (lambda m, x: exit(0), "runs", "raised SystemExit: 0"),
    ],
)
def test_a_broken_contract_is_a_failure_and_no_crash(refused, wrapped, change, name, detail):
    failures = refused(wrapped(change))
    assert failures[0].name == name
    assert detail in failures[0].detail


def test_a_build_that_raises_or_returns_nothing_is_a_failure(refused):
    def broken(reference):
        raise RuntimeError("no such device")

    assert refused(broken)[0].detail == "building raised RuntimeError: no such device"
    assert refused(lambda reference: None)[0].detail == "a NoneType is not callable"


def test_a_candidate_cannot_reach_the_references(refused):
    def cheat(reference):
        with torch.no_grad():
            for p in reference.parameters():
                p.zero_()
        return lambda x: torch.zeros(len(x), 300)

    failures = refused(cheat)
    assert failures[0].name == "values"
    assert any(f.name == "weights unchanged" and "features.0.weight" in f.detail for f in failures)


def test_a_global_switch_is_put_back(refused):
    def build(reference):
        torch.set_default_dtype(torch.float64)
        return Emulation(reference, "fp16")

    assert refused(build)[0].detail == "building changed default dtype"
    assert torch.get_default_dtype() == torch.float32


def test_a_candidate_may_require_repack_but_only_in_words(refused, suite):
    class Sealed(Emulation):
        def forward(self, x):
            if self.__dict__.setdefault("first", self.features[0].weight.clone()).ne(self.features[0].weight).any():
                raise RuntimeError(self.message)
            return super().forward(x)

    class Clear(Sealed):
        message = "weights changed since they were packed: call repack()"

    class Vague(Sealed):
        message = "internal error"

    assert examine(lambda r: Clear(r, "fp16"), suite).passed
    assert [f.name for f in refused(lambda r: Vague(r, "fp16"))] == [
        "weights changed, in place",
        "weights changed, load_state_dict",
    ]


def test_determinism_is_reported_and_decides_nothing(wrapped, suite):
    calls = count()

    def jitter(model, x):
        return model(x) * (1 + 2e-7 * (next(calls) % 3))

    verdict = examine(wrapped(jitter), suite)
    assert verdict.deterministic is False
    assert verdict.passed


@pytest.mark.parametrize(
    "change",
    [lambda m, x: m(x.requires_grad_()), lambda m, x: torch._neg_view(-m(x)), lambda m, x: m(x).t().contiguous().t()],
    ids=["asks for gradients", "negative view", "columns first"],
)
def test_an_unusual_but_right_output_passes(suite, wrapped, change):
    assert examine(wrapped(change), suite).failures == []


def test_the_input_of_the_call_before_is_still_the_callers(refused, wrapped):
    before = []

    def change(model, x):
        if before and before[0].data_ptr() != x.data_ptr():
            before[0].zero_()
        before[:] = [x]
        return model(x)

    found = refused(wrapped(change))
    assert {(f.name, f.detail) for f in found} == {("input unchanged", "the input of the call before was written to")}


def test_numpys_memory_is_seen_to_overlap(refused, wrapped):
    memory, calls = torch.zeros(20_000).numpy(), count(1)

    def change(model, x):
        y, start = model(x), next(calls)
        memory[start : start + y.numel()] = y.numpy().ravel()
        return torch.from_numpy(memory[start : start + y.numel()]).view(y.shape)

    assert refused(wrapped(change))[0].detail == "the output shares memory with an earlier output"


def test_an_output_that_is_written_later_is_compared_as_it_was(refused, wrapped):
    def change(model, x):
        late, y = model(x), torch.zeros(len(x), 300)
        Timer(0.2, y.copy_, [late]).start()
        return y

    assert refused(wrapped(change))[0].name == "values"


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.gpu
def test_another_streams_work_is_waited_for_or_refused(tiny_network, waits):
    def build(reference):
        model, side = Emulation(reference, "fp16"), torch.cuda.Stream()

        def call(x):
            if waits:
                side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = model(x)
            if waits:
                torch.cuda.current_stream().wait_stream(side)
            return y

        return call

    assert verify(build, tiny_network, "fp16", seed=1, device="cuda").passed is waits


def test_the_late_case_has_no_reference_in_memory(suite, wrapped):
    found = []

    def change(model, x):
        if len(x) == 1:
            found.append([q for q in gc.get_objects() if type(q) is TestCase and torch.equal(q.x, x)])
        return model(x)

    assert examine(wrapped(change), suite).passed
    assert found == [[]]


def test_another_candidates_trace_does_not_stand_in_for_its_forward(tiny_network):
    class TraceAlone(Emulation):
        def forward(self, x):
            return torch.zeros(len(x), 300)

    build = lambda reference: TraceAlone(reference, "fp16")  # noqa: E731
    verdict = verify(build, tiny_network, "fp16", effort="single", seed=5)
    assert verdict.failures[0].name == "values"
    ours = verify(build, tiny_network, "fp16", effort="single", seed=5, through_trace=True)
    assert ours.passed  # why it is only for a trace that is the forward
