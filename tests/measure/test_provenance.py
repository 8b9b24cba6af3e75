import json
import subprocess

import pytest
import torch

from vgg_kernels.measure import provenance, telemetry
from vgg_kernels.measure.provenance import collect, device_key, identity, source_sha256


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
    (tmp_path / "tuned_tiles.csv").write_text("a\n")
    first = source_sha256(tmp_path)
    assert source_sha256(tmp_path) == first
    (tmp_path / "tuned_tiles.csv").write_text("b\n")
    assert source_sha256(tmp_path) != first
    (tmp_path / "tuned_tiles.csv").write_text("a\n")
    (tmp_path / "a.py").write_text("x = 2\n")
    second = source_sha256(tmp_path)
    (tmp_path / "b.toml").rename(tmp_path / "c.toml")
    assert len({first, second, source_sha256(tmp_path)}) == 3


@pytest.fixture
def without_git(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    monkeypatch.delenv("VGG_REVISION", raising=False)


def test_without_git_the_revision_is_unknown_and_the_hash_holds(without_git):
    found = provenance.source()
    assert found["git_revision"] is None
    assert found["git_dirty"] is None
    assert len(found["source_sha256"]) == 64


def test_a_copy_without_git_can_be_told_its_revision_and_says_that_it_was(without_git, monkeypatch):
    monkeypatch.setenv("VGG_REVISION", "0123456789" * 4)
    found = provenance.source()
    assert (found["git_revision"], found["git_dirty"]) == ("0123456789" * 4, False)
    assert found["revision_stated"] is True
    monkeypatch.setenv("VGG_REVISION", "main")
    with pytest.raises(ValueError, match="40 digits"):
        provenance.source()


def test_where_git_is_at_hand_nothing_can_be_told(monkeypatch):
    monkeypatch.setenv("VGG_REVISION", "0123456789" * 4)
    monkeypatch.setattr(provenance, "_git", lambda *words: "" if words[0] == "status" else "f" * 40)
    assert provenance.source()["git_revision"] == "f" * 40
    assert "revision_stated" not in provenance.source()


@pytest.mark.parametrize("broken", [AttributeError("no output"), OSError("no such program")])
def test_an_environment_that_cannot_be_described_costs_no_run(monkeypatch, broken):
    def fail():
        raise broken

    monkeypatch.setattr("torch.utils.collect_env.get_env_info", fail)
    provenance._environment.cache_clear()
    try:
        assert provenance.software()["python"].count(".") == 2
    finally:
        provenance._environment.cache_clear()


@pytest.mark.parametrize(("built", "said"), [("13.0", "is built for CUDA 13.0"), (None, "is built without CUDA")])
def test_a_pytorch_for_another_cuda_gets_one_line_with_both_versions(monkeypatch, built, said):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built)
    monkeypatch.setattr(telemetry, "driver_cuda", lambda: "12.4")
    sentence = provenance.cuda_mismatch()
    assert said in sentence
    assert "the NVIDIA driver here offers CUDA 12.4" in sentence
    assert "\n" not in sentence


def test_a_pytorch_without_code_for_the_card_gets_one_line(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "12.1")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (10, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA B200")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90"])
    assert "built for CUDA 12.1 and sm_80, sm_90; NVIDIA B200 is sm_100" in provenance.cuda_mismatch()
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_90", "compute_90"])
    assert provenance.cuda_mismatch() is None


def test_no_driver_is_no_mismatch(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(telemetry, "driver_cuda", lambda: None)
    assert provenance.cuda_mismatch() is None
