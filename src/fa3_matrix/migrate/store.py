"""The models and the difference that ship with the package, as compressed JSON.

``python -m fa3_matrix.migrate.store model ROOT [COMPONENT ...]`` reads a toolkit into ``data/cuda-X.Y.json.xz``;
``... difference 12.4 13.3`` computes the difference of two such models, dated by those between them, and keeps what
was proved of it;
``python -m fa3_matrix.migrate.witness`` proves it.
"""

import argparse
import dataclasses
import lzma
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from fa3_matrix import _json
from fa3_matrix.errors import Fa3Error, ToolkitError
from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.model import Model
from fa3_matrix.migrate.rules import Proof

DATA = Path(__file__).parent / "data"


def releases() -> list[str]:
    """Toolkits whose models ship, oldest first."""
    found = [re.search(r"^cuda-(\d+\.\d+)\.json\.xz$", path.name) for path in DATA.iterdir()]
    return sorted((match.group(1) for match in found if match), key=order)


def order(release: str) -> tuple[int, ...]:
    """Sorts releases: "12.10" comes after "12.9"."""
    return tuple(int(part) for part in release.split("."))


def load_model(release: str) -> Model:
    """The model of a toolkit that ships with the package.

    Raises:
        ToolkitError: there is none of that release.
    """
    return typing.cast(Model, _load(_model_path(release), Model))


def load_difference(old: str, new: str) -> Difference:
    """What changed from one toolkit to another: the shipped, proved difference, or one computed from shipped models.

    Args:
        old, new: "12.4", "13.3".

    Raises:
        ToolkitError: no difference and no models of these two ship.
    """
    path = _difference_path(old, new)
    if path.exists():
        return typing.cast(Difference, _load(path, Difference))
    return _computed(old, new)


def save_model(model: Model, path: Path) -> None:
    """Write a model."""
    _write(path, model)


def save_difference(difference: Difference) -> None:
    """Replace the shipped difference of these two toolkits."""
    _write(_difference_path(difference.old, difference.new), difference)


def dumps(value: Any) -> bytes:
    """A model or difference as compressed JSON; the same value gives the same bytes."""
    return lzma.compress(_json.dumps(_plain(value)).encode(), preset=9)


def loads(data: bytes, kind: type, source: Path | str) -> Any:
    """Reads what `dumps` wrote; errors are those of `fa3_matrix._json.read`."""
    try:
        text = lzma.decompress(data).decode()
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise Fa3Error(
            f"{source}: not compressed JSON ({error}); install the package again"
        ) from error
    fields = _json.parse(text, source)
    del fields["schema"]
    return _reader(kind)(fields)


def _model_path(release: str) -> Path:
    return DATA / f"cuda-{release}.json.xz"


def _difference_path(old: str, new: str) -> Path:
    return DATA / f"difference-{old}-{new}.json.xz"


def _computed(old: str, new: str) -> Difference:
    from fa3_matrix.migrate.compute import compute

    known = releases()
    if missing := [release for release in (old, new) if release not in known]:
        there = f"there are {', '.join(known)}" if known else "wheels hold none, a checkout does"
        raise ToolkitError(
            f"no model of CUDA {' or '.join(missing)}: {there}. Read another toolkit with "
            "`python -m fa3_matrix.migrate.store model ROOT`"
        )
    if order(old) >= order(new):
        raise ToolkitError(f"CUDA {new} is not newer than {old}: name the older toolkit first")
    between = [release for release in known if order(old) < order(release) < order(new)]
    return compute(load_model(old), load_model(new), [load_model(release) for release in between])


def _load(path: Path, kind: type) -> Any:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ToolkitError(
            f"no {path.name} in the package; there are models of CUDA {', '.join(releases())}"
        ) from error
    return loads(data, kind, path)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        temporary.write_bytes(dumps(value))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """Dataclasses as objects without the fields that have their default."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(item)
            for field in dataclasses.fields(value)
            if (item := getattr(value, field.name)) != field.default
        }
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in sorted(value.items())}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """A function that makes a ``kind`` of plain JSON."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        readers = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}
        make = typing.cast(Callable[..., Any], kind)
        return lambda data: make(**{name: readers[name](item) for name, item in data.items()})
    if origin is tuple:
        read = _reader(arguments[0])
        if arguments[-1] is not Ellipsis:
            return tuple
        return tuple if read is _same else lambda data: tuple(read(item) for item in data)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        read_item = _reader(arguments[1])
        return lambda data: {key: read_item(item) for key, item in data.items()}
    if origin is types.UnionType:
        (inner,) = (argument for argument in arguments if argument is not types.NoneType)
        read_inner = _reader(inner)
        return lambda data: None if data is None else read_inner(data)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return _same


def _same(data: Any) -> Any:
    return data


def kept(difference: Difference, recorded: Difference) -> Difference:
    """``difference``, computed anew, with the proof levels that ``recorded`` has of the same changes.

    What proved a row need not be at hand when it is computed again: headers of a component, or a compiler.
    """
    levels = {_fact(change): change.proof for change in recorded.changes}
    return dataclasses.replace(
        difference,
        changes=tuple(
            dataclasses.replace(change, proof=levels.get(_fact(change), change.proof))
            if change.proof is Proof.HEADERS
            else change
            for change in difference.changes
        ),
    )


def _fact(change: Change) -> tuple[object, ...]:
    """What a witness proves of a change: not when it was made, nor what to write instead."""
    calls = tuple(
        (call.arguments, call.position, call.old, call.new) for call in change.broken_calls
    )
    return change.rule, change.name, change.where, change.old, change.new, calls


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 on success, 1 with a message on standard error otherwise."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.migrate.store", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    model = commands.add_parser("model", help="read a toolkit (minutes)")
    model.add_argument("root", type=Path)
    model.add_argument(
        "components", type=Path, nargs="*", help="roots of parts shipped apart: NVRTC"
    )
    difference = commands.add_parser("difference", help="compute the difference of two models")
    difference.add_argument("old")
    difference.add_argument("new")
    options = parser.parse_args(arguments)
    try:
        if options.command == "model":
            from fa3_matrix.migrate.read import read

            found = read(options.root, options.components)
            save_model(found, _model_path(found.cuda))
        else:
            computed = _computed(options.old, options.new)
            recorded = load_difference(options.old, options.new)
            save_difference(kept(computed, recorded))
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
