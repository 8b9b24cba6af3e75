"""Sampling, against an NVML that does not exist: no clock or temperature here is a reading."""

import time
from types import SimpleNamespace

import pytest

from vgg_kernels.measure.telemetry import THROTTLES, Gpu, Telemetry, cpu_sample, open_gpu, summarise, throttles


class FakeNvmlError(Exception):
    pass


def fake_nvml(**answers):
    def refuse(*_):
        raise FakeNvmlError

    names = (
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetMaxClockInfo",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetCurrentClocksEventReasons",
    )
    calls = {name: (lambda *_, value=answers[name]: value) if name in answers else refuse for name in names}
    constants = {"NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0}
    return SimpleNamespace(NVMLError=FakeNvmlError, nvmlSystemGetDriverVersion=lambda: "580", **calls, **constants)


def test_readings_come_in_the_units_of_their_names():
    gpu = Gpu(fake_nvml(nvmlDeviceGetPowerUsage=350_500, nvmlDeviceGetClockInfo=1755), handle=None)
    sample = gpu.sample()
    assert sample["power_w"] == 350.5
    assert sample["sm_mhz"] == 1755


@pytest.mark.parametrize("known", ["Throttle", "Event"])
def test_the_reasons_are_asked_for_by_the_name_that_the_driver_knows(known):
    nvml = fake_nvml(**{f"nvmlDeviceGetCurrentClocks{known}Reasons": 0x0004})
    assert throttles([Gpu(nvml, handle=None).sample()]) == ["power cap"]


def test_the_real_library_has_every_name_that_is_asked_for():
    import pynvml

    asked = [name for name in vars(fake_nvml()) if name.startswith("nvml")]
    assert [name for name in (*asked, "nvmlInit", "nvmlDeviceGetHandleByUUID") if not hasattr(pynvml, name)] == []
    assert pynvml.NVML_CLOCK_SM != pynvml.NVML_CLOCK_MEM
    assert issubclass(pynvml.NVMLError, Exception)


def test_what_the_driver_does_not_say_is_missing_not_guessed():
    sample = Gpu(fake_nvml(), handle=None).sample()
    assert set(sample.values()) == {None}
    assert Gpu(fake_nvml(), handle=None).describe()["power_limit_w"] is None


def test_a_machine_without_a_driver_has_no_gpu_to_sample(monkeypatch):
    import pynvml

    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert open_gpu() is None


def test_samples_are_taken_before_during_and_after():
    with Telemetry(lambda: {"sm_mhz": 1000}, period_s=0.01) as witness:
        time.sleep(0.08)
    assert len(witness.samples) >= 4
    ats = [s["at_s"] for s in witness.samples]
    assert ats == sorted(ats)
    assert witness.summary()["samples"] == len(ats)


def test_a_witness_that_fails_costs_no_measurement():
    def fail():
        raise OSError("the driver went away")

    with Telemetry(fail, period_s=0.01) as witness:
        time.sleep(0.03)
    assert witness.samples == []
    assert witness.summary() == {"samples": 0, "throttled": []}


def test_a_summary_spans_what_was_seen():
    found = summarise([{"at_s": 0, "sm_mhz": 3}, {"at_s": 1, "sm_mhz": 1}, {"at_s": 2, "sm_mhz": 2, "power_w": None}])
    assert found["sm_mhz"] == {"min": 1, "median": 2, "max": 3}
    assert "power_w" not in found


@pytest.mark.parametrize(("bit", "name"), THROTTLES.items())
def test_each_reason_that_lowers_the_clock_is_named(bit, name):
    assert throttles([{"reasons": 0}, {"reasons": bit | 0x0001}]) == [name]


def test_idling_and_application_clocks_are_not_throttling():
    assert throttles([{"reasons": 0x0001 | 0x0002}, {"reasons": None}, {}]) == []


def test_on_a_cpu_the_load_is_the_witness():
    assert cpu_sample()["load_average"] >= 0
