"""Where the study's files are."""

import os
from pathlib import Path


def root() -> Path:
    """The repository's folder: ``$VGG_STUDY_ROOT``, else the folder above this package or the working directory.

    Raises:
        FileNotFoundError: none of them holds the study's ``data`` and ``notebooks``.
    """
    named = os.environ.get("VGG_STUDY_ROOT")
    candidates = [Path(named)] if named else [*Path(__file__).resolve().parents[2:], Path.cwd(), *Path.cwd().parents]
    for folder in candidates:
        if (folder / "data").is_dir() and (folder / "notebooks").is_dir():
            return folder
    raise FileNotFoundError(f"no study found in {', '.join(map(str, candidates))}; set VGG_STUDY_ROOT to its folder")
