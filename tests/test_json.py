"""JSON files between stages."""

import os
import stat
from pathlib import Path

import pytest

from fa3_matrix import _json
from fa3_matrix.errors import Fa3Error


def test_what_is_written_reads_back_with_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data.json"
    _json.write_atomic(path, {"cell": "sm90-cu133", "seconds": 1.5})
    assert _json.read(path) == {"schema": 1, "cell": "sm90-cu133", "seconds": 1.5}
    assert [p.name for p in path.parent.iterdir()] == ["data.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    _json.write_atomic(path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        _json.write_atomic(path, {"a": float("nan")})
    with pytest.raises(UnicodeEncodeError):
        _json.write_text_atomic(path, "\ud800")
    assert _json.read(path) == {"schema": 1, "a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["data.json"]


def test_files_have_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        _json.write_text_atomic(tmp_path / "text", "x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "text").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file; run the stage that writes it"),
        ("{", "not JSON (Expecting property name"),
        ("[]", "schema is None, this version reads 1"),
        ('{"schema": 2}', "schema is 2, this version reads 1"),
    ],
)
def test_an_unreadable_file_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "data.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Fa3Error) as caught:
        _json.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
