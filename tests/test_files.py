"""Files that survive a crash, and telling a change."""

import pytest

from vgg_kernels.files import Lines, fingerprint, first_change, split_torn, write_whole


def test_a_whole_file_is_written_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "document.json"
    write_whole(path, "first\n")
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError("power cut")))
    with pytest.raises(OSError, match="power cut"):
        write_whole(path, "second\n")
    assert path.read_text() == "first\n"
    assert list(tmp_path.iterdir()) == [path]


def test_opening_cuts_off_a_half_written_line_and_keeps_the_others(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,2\n3,")
    lines = Lines(path)
    lines.append("5,6\n")
    lines.close()
    assert lines.torn == "3,"
    assert path.read_bytes() == b"a,b\n1,2\n5,6\n"


def test_a_second_writer_is_refused_by_name(tmp_path):
    first = Lines(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match=r"rows\.csv is being written by another process"):
        Lines(tmp_path / "rows.csv")
    first.close()
    Lines(tmp_path / "rows.csv").close()


def test_a_full_disk_leaves_whole_lines_only(tmp_path, monkeypatch):
    lines = Lines(tmp_path / "rows.csv")
    lines.append("1\n")
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        lines.append("2\n")
    assert (tmp_path / "rows.csv").read_text() == "1\n"


@pytest.mark.parametrize(
    ("content", "whole", "torn"), [(b"", b"", b""), (b"a", b"", b"a"), (b"a\nb", b"a\n", b"b"), (b"a\n", b"a\n", b"")]
)
def test_split_torn(content, whole, torn):
    assert split_torn(content) == (whole, torn)


@pytest.mark.parametrize(
    ("changed", "row"),
    [(b"a\nX\nc\n", "row 2"), (b"a\nb\nc\nd\n", "row 4"), (b"a\nb\n", "row 3"), (b"b\nc\n", "row 1")],
)
def test_a_change_is_named_by_its_first_row(tmp_path, changed, row):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a\nb\nc\n")
    recorded = fingerprint(path)
    assert first_change(path, recorded) is None
    path.write_bytes(changed)
    assert first_change(path, recorded) == row
