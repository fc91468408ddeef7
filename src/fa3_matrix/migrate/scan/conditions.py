"""Conditions of build files and scripts, as far as the new toolkit's version decides them."""

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fa3_matrix.migrate.rules import State

# What scripts call the toolkit's version: CUDA_VERSION, CUDAToolkit_VERSION_MAJOR, CMAKE_CUDA_COMPILER_VERSION,
# torch.version.cuda, cuda_major, nvcc_version, CUDART_VERSION.
_VERSION = (
    r"(?:CMAKE_CUDA_COMPILER_VERSION|bare_metal_version|(?:\w*[._])?(?:version[._])?"
    r"(?:cuda|cudart|cudatoolkit|nvcc|cuda_?toolkit|cudacc)(?:_?(?:ver|version|release))?"
    r"(?:_?(?:major|maj|short|num|number|tuple))?)"
)
VERSION_NAME = re.compile(rf"(?<![\w.]){_VERSION}(?!\w)", re.IGNORECASE)

# True wherever CUDA is built at all, which a tree that is migrated does.
_WITH_CUDA = re.compile(
    r"^\W*(?:(?:USE|WITH|ENABLE|BUILD|HAVE|HAS)_(?:CUDA|NVCC|GPU)|(?:CUDA|CUDAToolkit)_(?:FOUND|HOME|PATH)"
    r"|CMAKE_CUDA_COMPILER|CUDA_HOME\s+is\s+not\s+None|PROJECT_IS_TOP_LEVEL)\W*$",
    re.IGNORECASE,
)

_OPERATORS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_WORDS = {
    "VERSION_LESS": "<",
    "VERSION_LESS_EQUAL": "<=",
    "VERSION_GREATER": ">",
    "VERSION_GREATER_EQUAL": ">=",
    "VERSION_EQUAL": "==",
    "LESS": "<",
    "LESS_EQUAL": "<=",
    "GREATER": ">",
    "GREATER_EQUAL": ">=",
    "EQUAL": "==",
    "STREQUAL": "==",
    "-LT": "<",
    "-LE": "<=",
    "-GT": ">",
    "-GE": ">=",
    "-EQ": "==",
    "-NE": "!=",
    "=": "==",
    **{symbol: symbol for symbol in _OPERATORS},
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

_WORD = (
    r"VERSION_(?:LESS|GREATER)(?:_EQUAL)?|VERSION_EQUAL|(?:LESS|GREATER)(?:_EQUAL)?|(?:STR)?EQUAL"
)
_OPERATOR = rf"(?P<operator>\b(?:{_WORD})\b|-(?:lt|le|gt|ge|eq|ne)\b|<=|>=|==|!=|<|>|=)"
_LITERAL = (
    r"""[("'\[{]*(?:(?:version\.)?(?:Version|parse|V)\()?["']?"""
    r"(?P<version>\d+(?:[.,]\s?\d+)*)(?P<glob>\.?\*)?"
)
_AFTER = re.compile(rf"""[)}}\]"'.\w\[(\s,-]*?\s*{_OPERATOR}\s*{_LITERAL}""", re.IGNORECASE)
_BEFORE = re.compile(
    rf"""["']?(?P<version>\d+(?:\.\d+)*)["']?\s*{_OPERATOR}\s*[${{("']*$""", re.IGNORECASE
)


def evaluate(condition: str, new: str) -> bool | None:
    """Whether ``condition`` holds with toolkit ``new`` ("13.3"); None: something else decides.

    Understands comparisons of a name of the toolkit's version with a literal, ``and``/``or``/``not`` of such,
    and what is true in every build with CUDA.
    """
    text = condition.strip()
    for word, decisive in ((r"\s(?:or|OR|-o)\s|\|\|", True), (r"\s(?:and|AND|-a)\s|&&", False)):
        parts = re.split(word, text)
        if len(parts) > 1 and all(_balanced(part) for part in parts):
            values = [evaluate(part, new) for part in parts]
            if decisive in values:
                return decisive
            return None if None in values else not decisive
    negated = re.match(r"(?:not|NOT)\b|!(?!=)", text)
    if negated:
        value = evaluate(text[negated.end() :], new)
        return None if value is None else not value
    if _WITH_CUDA.match(text):
        return True
    return _compare(text, new)


def _balanced(text: str) -> bool:
    return text.count("(") == text.count(")")


def _compare(text: str, new: str) -> bool | None:
    for name in VERSION_NAME.finditer(text):
        after = _AFTER.match(text, name.end())
        if after:
            symbol = _WORDS[after["operator"].upper()]
            coarse = after["glob"] is not None or "[0]" in text or "major" in name[0].lower()
            return _against(new, symbol, after["version"], coarse=coarse)
        before = _BEFORE.search(text[: name.start()])
        if before:
            symbol = _FLIPPED[_WORDS[before["operator"].upper()]]
            coarse = "major" in name[0].lower()
            return _against(new, symbol, before["version"], coarse=coarse)
    return None


def _against(new: str, symbol: str, literal: str, *, coarse: bool) -> bool:
    """``coarse``: only as many parts as the literal states are compared ("12.*", a major version)."""
    given = _numbers(literal)
    have = _numbers(new)
    if len(given) == 1 and given[0] >= 1000:  # 13000, as CUDA_VERSION of cuda.h
        have = (have[0] * 1000 + have[1] * 10,)
    elif len(given) == 1 and given[0] >= 100:  # 130, as in "cu130"
        have = (have[0] * 10 + have[1],)
    elif coarse or (len(given) == 1 and symbol in ("==", "!=")):
        have = have[: len(given)]
    else:
        width = max(len(given), len(have))
        given += (0,) * (width - len(given))
        have += (0,) * (width - len(have))
    return _OPERATORS[symbol](have, given)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def state(conditions: Iterable[bool | None]) -> State:
    """Of what stands behind ``conditions``, each True, False, or None for unknown."""
    values = list(conditions)
    if False in values:
        return State.INACTIVE
    return State.LATENT if None in values else State.ACTIVE


@dataclass(frozen=True)
class Branch:
    """One branch of an if/elseif/else: its own condition, and those of the branches before it."""

    value: bool | None
    earlier: tuple[bool | None, ...] = ()

    @property
    def reached(self) -> bool | None:
        """Whether it is taken: its condition holds, and none before it did."""
        if True in self.earlier:
            return False
        return None if None in self.earlier and self.value is not False else self.value

    def next(self, value: bool | None) -> "Branch":
        """The branch after it; ``value`` of an else is True."""
        return Branch(value, (*self.earlier, self.value))


class Branches:
    """The nested if/elseif/else around the line that is read."""

    def __init__(self) -> None:
        self._open: list[Branch] = []

    def begin(self, value: bool | None) -> None:
        """An ``if``."""
        self._open.append(Branch(value))

    def otherwise(self, value: bool | None = True) -> None:
        """An ``elseif`` of that value, or an ``else``."""
        if self._open:
            self._open[-1] = self._open[-1].next(value)

    def end(self) -> None:
        """An ``endif``."""
        if self._open:
            self._open.pop()

    @property
    def state(self) -> State:
        """Of what is read now."""
        return state(branch.reached for branch in self._open)
