"""How a command's document becomes a recorded file: the document, and where and from what it was made."""

import json
from pathlib import Path

from ..files import write_whole

KEPT = ("device_name", "torch", "triton", "git_revision", "git_dirty", "source_sha256", "observed")


def record(path: Path, document: dict) -> None:
    """Write ``document`` to ``path`` as JSON, with its evidence ("measured": computed here) and its provenance."""
    from ..measure.provenance import collect

    provenance = collect()
    kept = {key: provenance[key] for key in KEPT if key in provenance}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"evidence": "measured", "provenance": kept, **document}, indent=1, allow_nan=False)
    write_whole(path, text + "\n")
