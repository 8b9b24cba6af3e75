"""JupyterLab as a reader uses it: open a notebook, Run All, save; no error in the page, the console or the file."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import nbformat
import pytest
from selenium.common.exceptions import ElementClickInterceptedException
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions as expect
from selenium.webdriver.support.ui import Select, WebDriverWait

from vgg_kernels.floor.roofline import floor_us
from vgg_kernels.report.publish.notebooks import notebooks, tidy
from vgg_kernels.report.study import root
from vgg_kernels.workload.network import network

pytestmark = pytest.mark.browser
PATIENCE_S = 180


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab, its folder of notebooks, and its REST interface."""

    folder: Path
    server: str
    token: str

    def page(self, name: str) -> str:
        return f"{self.server}/lab/tree/{name}?token={self.token}"

    def kernel_is_idle(self, name: str) -> bool:
        """Whether the notebook has a kernel, connected to its page, that waits for work."""
        with urlopen(f"{self.server}/api/sessions?token={self.token}") as answer:
            kernels = [session["kernel"] for session in json.load(answer) if session["path"] == name]
        return any(kernel["execution_state"] == "idle" and kernel["connections"] for kernel in kernels)


@pytest.fixture
def lab(tmp_path):
    """A JupyterLab on a copy of the notebooks."""
    folder = tmp_path / "notebooks"
    shutil.copytree(root() / "notebooks", folder, ignore=shutil.ignore_patterns(".*"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    settings = {
        "ServerApp.port": port,
        "ServerApp.root_dir": folder,
        "IdentityProvider.token": token,
        "LabApp.extension_manager": "readonly",
        "LabApp.workspaces_dir": tmp_path / "workspaces",
        "LabApp.user_settings_dir": tmp_path / "settings",
    }
    quiet = tmp_path / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # it would ask the network, and the reader
    flags = [f"--{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *flags]
    environment = os.environ | {"VGG_STUDY_ROOT": str(root()), "VGG_STUDY_FIGURES": str(tmp_path / "figures")}
    with (tmp_path / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path)
        try:
            wait_for(f"http://127.0.0.1:{port}/api?token={token}", server, tmp_path / "lab.log")
            yield Lab(folder, f"http://127.0.0.1:{port}", token)
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE_S)


def wait_for(address: str, server: subprocess.Popen, log: Path):
    for _ in range(4 * PATIENCE_S):
        assert server.poll() is None, log.read_text()
        try:
            urlopen(address).close()
        except OSError:
            time.sleep(0.25)
        else:
            return
    raise AssertionError(log.read_text())


def menu(browser, name, entry):
    """Choose an entry of the menu bar, as a person does; wait while something covers it."""
    wait = WebDriverWait(browser, PATIENCE_S, ignored_exceptions=[ElementClickInterceptedException])
    for kind, label in (("lm-MenuBar-itemLabel", name), ("lm-Menu-itemLabel", entry)):
        found = expect.element_to_be_clickable((By.XPATH, f"//div[contains(@class,'{kind}')][.='{label}']"))
        wait.until(lambda driver, found=found: found(driver).click() or True)


def run_all(browser, lab, name):
    """Open a notebook and choose Run All, once its kernel is there."""
    browser.get(lab.page(name))
    WebDriverWait(browser, PATIENCE_S).until(lambda _: lab.kernel_is_idle(name))
    menu(browser, "Run", "Run All Cells")


@pytest.mark.parametrize("browser", ["desktop"], indirect=True)
def test_run_all_reaches_the_end_without_an_error(lab, browser, shots):  # in this order: the browser closes first
    path = notebooks(lab.folder)[0]
    stored = tidy(nbformat.read(path, as_version=4))
    blank = nbformat.from_dict(stored)
    for cell in blank.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(blank, path)

    run_all(browser, lab, path.name)

    last = max(cell.execution_count or 0 for cell in stored.cells if cell.cell_type == "code")

    def executed():
        menu(browser, "File", "Save Notebook")
        return max(cell.get("execution_count") or 0 for cell in nbformat.read(path, as_version=4).cells)

    done, seen_at = 0, time.monotonic()
    while done < last:  # as long as cells keep finishing, however slow the machine
        time.sleep(2)
        if (now := executed()) > done:
            done, seen_at = now, time.monotonic()
        assert time.monotonic() < seen_at + PATIENCE_S, f"no cell finished for {PATIENCE_S} s after [{done}]"
    browser.save_screenshot(str(shots / "lab.png"))
    assert browser.find_elements(By.CSS_SELECTOR, "[data-mime-type='application/vnd.jupyter.stderr'], .jp-Dialog") == []
    ran = tidy(nbformat.read(path, as_version=4))
    for got, want in zip(ran.cells, stored.cells, strict=True):
        assert got.get("execution_count") == want.get("execution_count")
        assert [output.output_type for output in got.get("outputs", [])] == [
            output.output_type for output in want.get("outputs", [])
        ]


@pytest.mark.parametrize("browser", ["desktop"], indirect=True)
def test_another_card_chosen_from_the_menu_moves_the_floor(lab, browser, shots):
    wait = WebDriverWait(browser, PATIENCE_S)

    def told(device):
        floor = floor_us(network("vgg19"), "fp16", device, 10)
        return By.XPATH, f"//pre[starts-with(., 'floor {floor:.0f} µs (derived)')]"

    run_all(browser, lab, notebooks(lab.folder, "03")[0].name)
    wait.until(expect.presence_of_element_located(told("h100_sxm")))
    Select(browser.find_element(By.CSS_SELECTOR, ".widget-dropdown select")).select_by_visible_text("B200")
    wait.until(expect.presence_of_element_located(told("b200")))
    browser.save_screenshot(str(shots / "menu.png"))
