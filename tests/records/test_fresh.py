import pytest

from vgg_kernels.records.fresh import measured_cards, wanted
from vgg_kernels.workload.lookup import UnknownName

H200 = "NVIDIA H200"


@pytest.fixture(autouse=True)
def _unset(monkeypatch):
    monkeypatch.delenv("VGG_STUDY", raising=False)


def test_a_gpu_without_a_run_of_its_own_is_measured(tmp_path, fake):
    assert wanted(tmp_path, H200)
    fake.run(tmp_path / "other", {"eager": [1.0]}, name="NVIDIA H100 80GB HBM3")
    assert wanted(tmp_path, H200)


def test_a_gpu_that_has_one_is_not_measured_again(tmp_path, fake):
    fake.run(tmp_path / "mine", {"eager": [1.0]}, name=H200)
    assert measured_cards(tmp_path) == {H200}
    assert not wanted(tmp_path, H200)


def test_a_run_without_samples_does_not_count(tmp_path, fake):
    fake.run(tmp_path / "mine", {}, name=H200)
    assert wanted(tmp_path, H200)


def test_without_a_gpu_there_is_nothing_to_measure_first(tmp_path):
    assert not wanted(tmp_path, None)


def test_recorded_data_can_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "recorded")
    assert not wanted(tmp_path, H200)
    monkeypatch.setenv("VGG_STUDY", "fresh")
    assert wanted(tmp_path, H200)


def test_another_choice_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "frehs")
    with pytest.raises(UnknownName, match="recorded, fresh"):
        wanted(tmp_path, H200)


def test_what_cannot_be_read_is_passed_over(tmp_path):
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "provenance.json").write_text("{")
    assert measured_cards(tmp_path) == set()
