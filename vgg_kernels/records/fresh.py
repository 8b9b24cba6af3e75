"""Whether the study should measure before it is shown: on a GPU that has no run of its own yet."""

import json
import os
from pathlib import Path

from ..workload.lookup import lookup
from .store import PROVENANCE, SAMPLES

CHOICES = {"recorded": False, "fresh": True}  # of $VGG_STUDY; unset is "fresh"


def gpu_name() -> str | None:
    """What PyTorch calls the current GPU; none without one."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def wanted(local: Path, card: str | None) -> bool:
    """True on a GPU of which ``local`` holds no samples, unless ``VGG_STUDY`` says "recorded".

    Args:
        local: the folder of this machine's runs, ``data/local``.
        card: ``gpu_name()``.

    Raises:
        UnknownName: for another value of ``VGG_STUDY``.
    """
    fresh = lookup("VGG_STUDY", os.environ.get("VGG_STUDY", "fresh"), CHOICES)
    return fresh and card is not None and card not in measured_cards(local)


def measured_cards(local: Path) -> set[str]:
    """The device names of the runs below ``local`` that hold samples."""
    names = set()
    for path in local.rglob(PROVENANCE):
        samples = path.with_name(SAMPLES)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            rows = samples.read_bytes().count(b"\n")
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and rows > 1:  # the first line is the header
            names.add(str(document.get("device_name")))
    return names
