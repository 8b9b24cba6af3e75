"""Files that survive ``kill -9``: whole, or grown by whole lines; and how to tell that one was changed."""

import fcntl
import hashlib
import os
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap

LINE_DIGITS = 4  # of each line's hash: enough to name the line, while the whole file's hash is what proves


def write_whole(path: Path, text: str) -> None:
    """Write a file in one piece: readers see the old one or the new one, even after a power cut.

    Raises:
        OSError: where the disk is full or gone; the old file stays, and no part of the new one.
    """
    draft = path.with_name(path.name + ".part")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    draft.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Lines:
    """A file of lines that only grows, with one writer; what ``append`` has returned from is on the disk.

    Opening cuts off a last line without an end, which is what a crash leaves; ``torn`` holds what was cut.

    Raises:
        ValueError: if another process is writing it.
    """

    def __init__(self, path: Path):
        self._file = path.open("a+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ValueError(f"{path} is being written by another process; give this one a folder of its own") from None
        self._file.seek(0)
        whole, torn = split_torn(self._file.read())
        self.torn = torn.decode("utf-8", "replace")
        self.empty = not whole
        if torn:
            self._file.truncate(len(whole))
        _sync_folder(path.parent)

    def append(self, text: str) -> None:
        """Write whole lines and wait until they are on the disk.

        Raises:
            OSError: where the disk is full or gone; nothing of ``text`` is kept then.
        """
        before = os.fstat(self._file.fileno()).st_size
        data = text.encode("utf-8")
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(before)
            raise

    def close(self) -> None:
        """Let another process write it."""
        self._file.close()


def split_torn(content: bytes) -> tuple[bytes, bytes]:
    """``content`` up to its last line end, and the half-written line behind it."""
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def fingerprint(path: Path) -> dict[str, str]:
    """``sha256`` of the file's bytes, and ``lines``: four hexadecimal digits of each line's own hash, run together."""
    content = path.read_bytes()
    lines = "".join(hashlib.sha256(line).hexdigest()[:LINE_DIGITS] for line in content.splitlines(keepends=True))
    return {"sha256": hashlib.sha256(content).hexdigest(), "lines": lines}


def first_change(path: Path, recorded: Mapping[str, str]) -> str | None:
    """Where a file differs from its recorded fingerprint: "row 17", or None where it does not."""
    found = fingerprint(path)
    if found["sha256"] == recorded["sha256"]:
        return None
    for row, (now, then) in enumerate(zip_longest(_per_line(found), _per_line(recorded)), start=1):
        if now != then:
            return f"row {row}"
    return "a row that its short hash does not tell apart"


def _per_line(prints: Mapping[str, str]) -> list[str]:
    return wrap(prints["lines"], LINE_DIGITS)
