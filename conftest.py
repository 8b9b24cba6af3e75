"""``pytest --nbval``, wherever it is typed: the notebooks too, strictly, on the recorded data, in this environment.

What a machine has measured for itself (``data/local``) is no part of what is stored, and the figures that the notebooks
write go to a temporary folder, so the tree stays as it is.
"""

import os
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Set what ``--nbval`` needs, and add the notebooks where no path was given."""
    if not config.getoption("nbval", False):
        return
    option = config.option
    option.nbval_current_env = True
    option.nbval_cell_timeout = min(option.nbval_cell_timeout, 300)
    option.nbval_sanitize_with = option.nbval_sanitize_with or str(ROOT / "tests" / "nbval_sanitize.cfg")
    os.environ["VGG_STUDY"] = "recorded"
    if "VGG_STUDY_FIGURES" not in os.environ:
        folder = tempfile.TemporaryDirectory()
        config.add_cleanup(folder.cleanup)
        os.environ["VGG_STUDY_FIGURES"] = folder.name
    if config.args_source is not pytest.Config.ArgsSource.ARGS:  # no path was given
        config.args[:] = [str(ROOT / "tests"), str(ROOT / "notebooks")]
