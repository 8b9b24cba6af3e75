import json
import subprocess

import pytest

from vgg_kernels.evidence import provenance
from vgg_kernels.evidence.provenance import collect, device_key, identity, source_sha256


@pytest.fixture(scope="module")
def here():
    return collect("cpu")


def test_it_is_one_json_document(here):
    assert json.loads(json.dumps(here, allow_nan=False)) == here


def test_what_decides_a_comparison_is_at_the_top(here):
    assert set(identity(here)) <= set(here)
    assert here["device"].startswith("cpu_")
    assert here["hardware"]["kind"] == "cpu"
    assert here["flags"]["matmul_allow_tf32"] is False
    assert here["observed"].endswith("+00:00")


def test_how_busy_the_machine_was_is_on_record(here):
    assert len(here["host"]["load_average"]) == 3
    assert all(value >= 0 for value in here["host"]["load_average"])


def test_no_path_and_no_name_of_a_machine_is_kept(here):
    import socket

    text = json.dumps(here)
    assert str(provenance.PACKAGE) not in text
    assert "/home/" not in text
    assert f'"{socket.gethostname()}"' not in text


@pytest.mark.parametrize(
    ("name", "kind", "key"),
    [
        ("NVIDIA H100 80GB HBM3", "cuda", "h100_sxm"),
        ("NVIDIA H200", "cuda", "h200"),
        ("NVIDIA GeForce RTX 4090", "cuda", "nvidia_geforce_rtx_4090"),
        ("AMD EPYC", "cpu", "cpu_amd_epyc"),
    ],
)
def test_a_card_has_its_data_sheets_key_or_one_made_from_its_name(name, kind, key):
    assert device_key(name, kind) == key


def test_the_source_hash_moves_with_any_file_and_with_its_name(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.toml").write_text("y = 2\n")
    first = source_sha256(tmp_path)
    assert source_sha256(tmp_path) == first
    (tmp_path / "a.py").write_text("x = 2\n")
    second = source_sha256(tmp_path)
    (tmp_path / "b.toml").rename(tmp_path / "c.toml")
    assert len({first, second, source_sha256(tmp_path)}) == 3


def test_without_git_the_revision_is_unknown_and_the_hash_holds(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    found = provenance.source()
    assert found["git_revision"] is None
    assert found["git_dirty"] is None
    assert len(found["source_sha256"]) == 64
