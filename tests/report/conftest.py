"""The study's figure style, as notebooks apply it: whatever test ran before, titles stand on the left."""

import pytest

from vgg_kernels.report import style


@pytest.fixture(autouse=True)
def _study_style():
    style.apply()
