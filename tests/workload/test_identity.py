"""The workload's identity: recomputable, pinned, and moved by every change that matters."""

import copy
import hashlib
import json

import pytest

from vgg_kernels.workload.identity import IDENTITY, KERNELBENCH, PUBLIC_INDEX_PREFIX, canonical, manifest, sha256
from vgg_kernels.workload.network import network


def test_the_pinned_identity_is_that_of_the_manifest():
    assert sha256(manifest()) == IDENTITY


def test_the_identity_needs_no_library_to_be_recomputed():
    plain = json.dumps(manifest(), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert canonical(manifest()) == plain  # integers and ASCII keys only: sorted JSON is canonical JSON
    assert hashlib.sha256(plain).hexdigest() == IDENTITY


def test_key_order_does_not_matter_and_values_do():
    document = manifest()
    backwards = dict(reversed(document.items()))
    assert sha256(backwards) == IDENTITY
    for change in (
        lambda d: d["layers"][3].update(name="conv9_9"),
        lambda d: d["inputs"][0].update(dtype="float16"),
        lambda d: d["semantics"].update(mutates_input=True),
        lambda d: d.update(parameters=d["parameters"] + 1),
    ):
        changed = copy.deepcopy(document)
        change(changed)
        assert sha256(changed) != IDENTITY


def test_another_network_is_another_workload():
    assert sha256(manifest(network("vgg16"))) != IDENTITY
    assert sha256(manifest(network("vgg19", image=32))) != IDENTITY


def test_the_manifest_states_the_layer_table():
    layers = manifest()["layers"]
    assert len(layers) == 19
    assert manifest()["parameters"] == 143_667_240
    assert layers[0]["weight"] == [64, 3, 3, 3]
    assert layers[-1]["output"] == ["batch", 1000]


def test_the_three_hashes_are_different_things():
    assert len(IDENTITY) == len(KERNELBENCH.sha256) == 64
    assert not IDENTITY.startswith(PUBLIC_INDEX_PREFIX)
    assert not KERNELBENCH.sha256.startswith(PUBLIC_INDEX_PREFIX)


@pytest.mark.parametrize("document", [{"x": float("nan")}, {"x": 2**60}, {1: "x"}])
def test_what_json_cannot_hold_has_no_identity(document):
    with pytest.raises(ValueError, match="no canonical JSON"):
        canonical(document)
