"""What holds for every test: nothing is written into the tree, and GPU tests run where there is a GPU."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _figures_elsewhere(tmp_path_factory):
    os.environ["VGG_STUDY_FIGURES"] = str(tmp_path_factory.mktemp("figures"))


def pytest_collection_modifyitems(items):
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
