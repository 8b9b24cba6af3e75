"""What the tests of the gate share: a prepared suite, and what it finds wrong with a candidate."""

import pytest

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.gate import examine
from vgg_kernels.correctness.suite import prepare


@pytest.fixture(scope="session")
def suite(tiny_network):
    """A prepared suite, for candidates that claim fp16."""
    return prepare(tiny_network, "fp16", "quick", seed=11)


@pytest.fixture
def refused(suite):
    """What the suite finds wrong with a build that must not pass."""

    def found(build):
        verdict = examine(build, suite)
        assert not verdict.passed
        return verdict.failures

    return found


@pytest.fixture
def wrapped():
    """A build whose candidate is a right network inside ``change(model, x)``; it has no trace."""
    return lambda change: lambda reference: (lambda model: lambda x: change(model, x))(Emulation(reference, "fp16"))
