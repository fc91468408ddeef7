"""Reading TOML so that an error can name its line, which ``tomllib`` alone does not keep."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from fa3_matrix.errors import MatrixError

Location = tuple[str | int, ...]


class _Locator:
    """Walks a document that ``tomllib`` has accepted; notes the line of each key and element."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.lines: dict[Location, int] = {}
        self._counts: dict[Location, int] = {}

    def run(self) -> dict[Location, int]:
        table: Location = ()
        while self._skip(" \t\r\n"):
            if self._peek("[["):
                table = self._header(2)
            elif self._peek("["):
                table = self._header(1)
            else:
                self._pair(table)
        return self.lines

    def _peek(self, token: str) -> bool:
        return self.text.startswith(token, self.position)

    def _skip(self, blanks: str) -> bool:
        """Skip blanks and comments; whether anything is left."""
        while self.position < len(self.text):
            if self._peek("#"):
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            elif self.text[self.position] in blanks:
                self.position += 1
            else:
                return True
        return False

    def _note(self, path: Location) -> None:
        self.lines.setdefault(path, self.text.count("\n", 0, self.position) + 1)

    def _header(self, brackets: int) -> Location:
        start = self.position
        self.position += brackets
        keys = self._key()
        self._skip(" \t")
        self.position += brackets
        parent = self._latest(keys[:-1])
        path: Location = (*parent, keys[-1])
        end, self.position = self.position, start
        for depth in range(1, len(keys)):
            self._note(self._latest(keys[:depth]))
        self._note(path)
        if brackets == 2:
            index = self._counts.get(path, -1) + 1
            self._counts[path] = index
            path = (*path, index)
            self._note(path)
        self.position = end
        return path

    def _latest(self, keys: Sequence[str]) -> Location:
        """The path of a table, through the newest element of each array of tables on the way."""
        path: Location = ()
        for key in keys:
            path = (*path, key)
            if path in self._counts:
                path = (*path, self._counts[path])
        return path

    def _key(self) -> list[str]:
        keys = []
        while True:
            self._skip(" \t")
            if self.text[self.position] in "\"'":
                start = self.position
                self._string()
                source = self.text[start : self.position]
                keys.append(str(tomllib.loads(f"key = {source}")["key"]))
            else:
                start = self.position
                while self.text[self.position] not in " \t.=]":
                    self.position += 1
                keys.append(self.text[start : self.position])
            self._skip(" \t")
            if not self._peek("."):
                return keys
            self.position += 1

    def _pair(self, table: Location) -> None:
        start = self.position
        keys = self._key()
        end, self.position = self.position, start
        for depth in range(1, len(keys) + 1):
            self._note((*table, *keys[:depth]))
        self.position = end + 1  # the equals sign
        self._skip(" \t")
        self._value((*table, *keys))

    def _value(self, path: Location) -> None:
        if self.text[self.position] in "\"'":
            self._string()
        elif self._peek("["):
            for index in self._elements("]"):
                self._note((*path, index))
                self._value((*path, index))
        elif self._peek("{"):
            for _ in self._elements("}"):
                self._pair(path)
        else:
            while self.position < len(self.text) and self.text[self.position] not in ",]}#\n":
                self.position += 1

    def _elements(self, closing: str) -> Iterator[int]:
        self.position += 1
        index = 0
        while self._skip(" \t\r\n,") and not self._peek(closing):
            yield index
            index += 1
        self.position += 1

    def _string(self) -> None:
        quote = self.text[self.position]
        delimiter = quote * 3 if self._peek(quote * 3) else quote
        self.position += len(delimiter)
        while not self._peek(delimiter):
            self.position += 2 if quote == '"' and self._peek("\\") else 1
        self.position += len(delimiter)
        while len(delimiter) == 3 and self._peek(
            quote
        ):  # a string may end in up to two quotes of its own
            self.position += 1


class Document:
    """A parsed TOML file and the line of each of its entries."""

    def __init__(self, text: str, source: Path | str) -> None:
        self.source = source
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise MatrixError(f"{source}: not valid TOML: {error}") from error
        # TOML counts CRLF as one newline, as does counting "\n".
        self.lines = _Locator(text).run()

    def line(self, path: Location) -> int:
        """The line of an entry, or of the closest table around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def root(self) -> "Table":
        return Table(self, (), self.data)


class Table:
    """One table being read: each key is taken with its type checked; ``done`` refuses the rest."""

    def __init__(self, document: Document, path: Location, data: dict[str, Any]) -> None:
        self.document = document
        self.path = path
        self._data = data
        self._known: list[str] = []

    @property
    def line(self) -> int:
        """The line at which this table begins."""
        return self.document.line(self.path)

    def fail(self, message: str, key: str | None = None) -> NoReturn:
        """Raise a ``MatrixError`` naming the file, the table, and the line of ``key`` or of it."""
        path = self.path if key is None else (*self.path, key)
        where = ".".join(str(part) for part in self.path)
        prefix = f"{self.document.source}:{self.document.line(path)}: "
        raise MatrixError(prefix + (f"[{where}]: " if where else "") + message)

    def __contains__(self, key: str) -> bool:
        self._known.append(key)
        return key in self._data

    def names(self) -> list[str]:
        return list(self._data)

    def take(self, key: str) -> Any:
        """The raw value of ``key``; an error when it is missing."""
        self._known.append(key)
        if key not in self._data:
            self.fail(f"missing key {key!r}")
        return self._data[key]

    def _typed(self, key: str, kind: type, name: str) -> Any:
        value = self.take(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(f"{key} = {value!r}: must be {name}", key)
        return value

    def string(self, key: str) -> str:
        value: str = self._typed(key, str, "a string")
        if not value:
            self.fail(f"{key} is empty", key)
        return value

    def boolean(self, key: str) -> bool:
        value: bool = self._typed(key, bool, "true or false")
        return value

    def integer(self, key: str, lowest: int = 0, highest: int | None = None) -> int:
        value: int = self._typed(key, int, "an integer")
        if value < lowest or (highest is not None and value > highest):
            bound = f"at least {lowest}" if highest is None else f"{lowest} to {highest}"
            self.fail(f"{key} = {value}: must be {bound}", key)
        return value

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        value = self.string(key)
        if value not in allowed:
            self.fail(f"{key} = {value!r}: must be one of {', '.join(allowed)}", key)
        return value

    def list_of(self, key: str, kind: type, name: str) -> list[Any]:
        """A non-empty list of ``kind`` without repeats; one bare value stands for a list of one."""
        value = self.take(key)
        values = value if isinstance(value, list) else [value]
        for item in values:
            if not isinstance(item, kind) or (isinstance(item, bool) and kind is not bool):
                self.fail(f"{key} holds {item!r}: each must be {name}", key)
        if not values:
            self.fail(f"{key} is empty", key)
        if len(set(values)) != len(values):
            self.fail(f"{key} = {values}: an entry is repeated", key)
        return list(values)

    def choices(self, key: str, allowed: Sequence[str]) -> list[str]:
        values: list[str] = self.list_of(key, str, "a string")
        for value in values:
            if value not in allowed:
                self.fail(f"{key} holds {value!r}: must be among {', '.join(allowed)}", key)
        return values

    def table(self, key: str) -> "Table":
        return Table(self.document, (*self.path, key), self._typed(key, dict, "a table"))

    def tables(self, key: str) -> list["Table"]:
        """An array of tables, such as ``[[variants]]``; empty when the key is absent."""
        if key not in self:
            return []
        rows = self._typed(key, list, "an array of tables")
        for row in rows:
            if not isinstance(row, dict):
                self.fail(f"{key} holds {row!r}: each must be a table", key)
        return [Table(self.document, (*self.path, key, i), row) for i, row in enumerate(rows)]

    def named(self, key: str) -> list[tuple[str, "Table"]]:
        """The sub-tables of ``key`` with their names, such as all ``[cells.*]``."""
        table = self.table(key)
        return [(name, table.table(name)) for name in table.names()]

    def done(self) -> None:
        """Refuse keys that nothing has asked for."""
        for key in self._data:
            if key not in self._known:
                known = ", ".join(dict.fromkeys(self._known))
                self.fail(f"unknown key {key!r}; known here: {known}", key)
