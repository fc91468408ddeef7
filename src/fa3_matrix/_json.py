"""The JSON files that stages hand to each other: schema-stamped, written atomically."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from fa3_matrix.errors import Fa3Error

SCHEMA = 1


def write_text_atomic(path: Path, text: str) -> None:
    """Write ``text`` (UTF-8) so that a reader sees the old file or the new one, never a part.

    Parent folders are made. The mode is that of an ordinary new file (umask applies).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def dumps(data: Mapping[str, Any]) -> str:
    """Return ``data`` as stable, readable JSON with ``"schema"`` first and a final newline."""
    return json.dumps({"schema": SCHEMA, **data}, indent=2, allow_nan=False) + "\n"


def write_atomic(path: Path, data: Mapping[str, Any]) -> None:
    """Write ``data`` as JSON, stamped with ``"schema": 1``, atomically.

    ``allow_nan`` is off: NaN is not JSON, and a measurement that is NaN must be stated as missing.
    """
    write_text_atomic(path, dumps(data))


def read(path: Path) -> dict[str, Any]:
    """Read a JSON object written by :func:`write_atomic`.

    Raises:
        Fa3Error: the file is missing, is not a JSON object, or has another schema version.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise Fa3Error(f"{path}: no such file; run the stage that writes it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise Fa3Error(f"{path}: cannot be read ({error})") from error
    return parse(text, path)


def parse(text: str, source: Path | str) -> dict[str, Any]:
    """Read a JSON object from ``text``; ``source`` is named in errors, which are those of `read`."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise Fa3Error(f"{source}: not JSON ({error}); write the file again") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise Fa3Error(
            f"{source}: schema is {schema!r}, this version reads {SCHEMA}; write the file again"
        )
    return dict(data)
