"""A real browser: Debian's chromium through its driver, headless."""

import os
from pathlib import Path

import pytest
from selenium import webdriver

WIDTHS = {"phone": 390, "desktop": 1280}


@pytest.fixture(params=WIDTHS)
def browser(request, tmp_path):
    """A browser of a phone's or a desktop's width, whose console is read after the test: an error fails it."""
    name = getattr(request, "param", "desktop")
    options = webdriver.ChromeOptions()
    options.binary_location = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(os.environ.get("CHROMEDRIVER", "/usr/bin/chromedriver"))
    with webdriver.Chrome(options=options, service=service) as driver:
        metrics = {"width": WIDTHS[name], "height": 844, "deviceScaleFactor": 1, "mobile": name == "phone"}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield driver
        errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert errors == []


@pytest.fixture
def shots(tmp_path):
    """Where screenshots go: ``$VGG_SCREENSHOTS`` for a person who wants to look at them, else nowhere lasting."""
    folder = Path(os.environ.get("VGG_SCREENSHOTS", tmp_path / "shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
