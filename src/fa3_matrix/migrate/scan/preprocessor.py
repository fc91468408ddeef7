"""Conditions of the preprocessor, evaluated with what is known of a toolkit."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum


class Truth(IntEnum):
    """Of a condition; ``min`` is *and*, ``max`` is *or*."""

    FALSE = 0
    PROJECT = 1  # it holds where the build defines a macro of the project
    DEFAULT = 2  # it holds unless the build does
    EITHER = 3  # compilers, passes or platforms decide: it holds in some build
    TRUE = 4

    @property
    def negated(self) -> "Truth":
        """Of the opposite."""
        return _NEGATED[self]


_NEGATED = {
    Truth.FALSE: Truth.TRUE,
    Truth.PROJECT: Truth.DEFAULT,
    Truth.DEFAULT: Truth.PROJECT,
    Truth.EITHER: Truth.EITHER,
    Truth.TRUE: Truth.FALSE,
}
# An integer, or a truth where it is not known.
Value = int | Truth


@dataclass(frozen=True)
class Macro:
    """``body``: its text, or None where only ``defined`` is known. ``parameters``: None: object-like."""

    body: str | None
    parameters: tuple[str, ...] | None = None
    defined: Truth = Truth.TRUE
    unknown: Truth = Truth.PROJECT


_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:0[xX][0-9a-fA-F']+|0[bB][01']+|\d[\d']*)[uUlLzZ]*\b)
    | (?P<name>[A-Za-z_]\w*) | (?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>!~&|^?:(),]))""",
    re.VERBOSE,
)
_PRECEDENCE = {
    **dict.fromkeys(("*", "/", "%"), 10),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("<", ">", "<=", ">="), 7),
    **dict.fromkeys(("==", "!="), 6),
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "*": lambda a, b: a * b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&": lambda a, b: a & b,
    "^": lambda a, b: a ^ b,
    "|": lambda a, b: a | b,
    "<<": lambda a, b: a << b if 0 <= b < 64 else 0,
    ">>": lambda a, b: a >> b if 0 <= b < 64 else 0,
}
# Larger conditions are no code that a person wrote: they count as not known, and cost no time.
_TOKENS_LIMIT = 4000
_NESTING_LIMIT = 60

# Of compilers, passes and platforms: a tree is built with and without them.
_EITHER = re.compile(
    r"__CUDACC\w*|__NVCC__|__NVCOMPILER\w*|__CUDA_ARCH\w*|__CUDA_LIBDEVICE__|__NVRTC__|__GNU\w*|__clang\w*|_MSC_\w*|_MSVC\w*"
    r"|_?_?WIN(?:32|64|NT)?(?:_?_)?|__linux\w*|linux|__unix\w*|__APPLE__|__MINGW\w*|__CYGWIN__|__ICC|__INTEL\w*|__x86_64\w*"
    r"|_M_\w+|__aarch64\w*|__arm\w*|__ARM\w*|__powerpc\w*|__PPC\w*|__cplusplus|__STDC\w*|__cpp_\w+|__SIZEOF\w*|__LP64__"
    r"|_?NDEBUG|_?DEBUG|__OPTIMIZE__|__has_\w+|__BYTE_ORDER\w*|__EXCEPTIONS|_OPENMP|__ELF__|_CCCL_\w+|_CPP\w*|__QNX\w*"
    r"|CUDA_API_PER_THREAD_DEFAULT_STREAM|__ANDROID__|__SANITIZE\w*|THRUST_\w+_SYSTEM\w*"
    # Include guards of the toolkit's headers, by which files ask whether one was read before them.
    r"|__(?:CUDA|DRIVER|DEVICE|VECTOR|TEXTURE|SURFACE|HOST|CHANNEL|BUILTIN|LIBRARY|NVRTC)\w*_H(?:PP)?__|__cuda_cuda_h__"
)
# Of another vendor's compilers, which read no header of CUDA.
_FOREIGN = re.compile(r"__HIP\w*|HIP_VERSION\w*|__SYCL\w*|SYCL_LANGUAGE_VERSION|__MUSA\w*")


def toolkit_macros(version: str, cccl: str) -> dict[str, Macro]:
    """What toolkit ``version`` ("13.3") with CCCL ``cccl`` ("3.5.0") defines about itself."""
    major, minor = (int(part) for part in (*version.split("."), "0")[:2])
    cuda = major * 1000 + minor * 10
    values = {
        **dict.fromkeys(("CUDA_VERSION", "CUDART_VERSION", "__CUDA_API_VERSION"), cuda),
        **dict.fromkeys(("__CUDART_API_VERSION", "CUDA_API_VERSION"), cuda),
        **dict.fromkeys(("__CUDACC_VER_MAJOR__", "__CUDA_API_VER_MAJOR__"), major),
        **dict.fromkeys(("__CUDACC_VER_MINOR__", "__CUDA_API_VER_MINOR__"), minor),
        "__CUDACC__": 1,
        "__NVCC__": 1,
    }
    if cccl:
        first, second, third = (int(part) for part in (*cccl.split("."), "0", "0")[:3])
        ccc = first * 1_000_000 + second * 1000 + third
        old = first * 100_000 + second * 100 + third
        for name in ("CCCL_VERSION", "_LIBCUDACXX_CUDA_API_VERSION"):
            values |= {name: ccc, f"{name}_MAJOR": first, f"{name}_MINOR": second}
        values |= {"CCCL_MAJOR_VERSION": first, "CCCL_MINOR_VERSION": second}
        values |= {"CCCL_PATCH_VERSION": third}
        for library in ("THRUST", "CUB"):
            values |= {f"{library}_VERSION": old, f"{library}_MAJOR_VERSION": first}
            values |= {f"{library}_MINOR_VERSION": second, f"{library}_SUBMINOR_VERSION": third}
    macros = {name: Macro(str(value)) for name, value in values.items()}
    for library in ("CTK", "CUDACC"):
        at_least = f"({cuda} >= (major) * 1000 + (minor) * 10)"
        macros[f"_CCCL_{library}_AT_LEAST"] = Macro(at_least, ("major", "minor"))
        macros[f"_CCCL_{library}_BELOW"] = Macro("!" + at_least, ("major", "minor"))
    # Host compilers see headers of a tree too: that nvcc is at work is not certain, that it may be is.
    for name in ("__CUDACC__", "__NVCC__"):
        macros[name] = Macro(None, defined=Truth.EITHER, unknown=Truth.EITHER)
    return macros


class ConditionError(ValueError):
    """Not an expression of the preprocessor; caught where conditions are read."""


@dataclass
class Environment:
    """The macros of one toolkit at one place of a file.

    Args:
        macros: by name; changed by `define` and `undefine` as the file is read.
        has_include: whether a header is there; None: not known.
    """

    macros: dict[str, Macro]
    has_include: Callable[[str], bool | None] = field(default=lambda _header: None)
    _known: dict[str, Truth] = field(default_factory=dict)  # of conditions, until a macro changes

    def truth(self, condition: str) -> Truth:
        """Of the text after ``#if``. What is no expression counts as not known."""
        known = self._known.get(condition)
        if known is None:
            try:
                known = _truth(_Expression(self._expand(condition)).value())
            except (ConditionError, RecursionError, ValueError, OverflowError):
                known = Truth.PROJECT
            self._known[condition] = known
        return known

    def defined(self, name: str) -> Truth:
        """Of ``defined(name)``."""
        macro = self.macros.get(name)
        if macro is not None:
            return macro.defined
        return Truth.FALSE if _FOREIGN.fullmatch(name) else _unknown(name)

    def define(self, name: str, macro: Macro, seen: Truth, *, missing: bool = False) -> None:
        """``#define`` where the preprocessor comes by if ``seen``; ``missing``: under ``#ifndef`` of it."""
        self._known.clear()
        if seen is Truth.TRUE:
            self.macros[name] = macro
        elif seen is not Truth.FALSE:
            defined = Truth.TRUE if missing else max(seen, self.defined(name))
            self.macros[name] = Macro(None, macro.parameters, defined=defined, unknown=seen)

    def undefine(self, name: str, seen: Truth) -> None:
        """``#undef``; as `define`."""
        self._known.clear()
        if seen is Truth.TRUE:
            self.macros[name] = Macro("0", defined=Truth.FALSE)
        elif seen is not Truth.FALSE and self.defined(name) is not Truth.FALSE:
            left = min(seen.negated, self.defined(name))
            self.macros[name] = Macro(None, defined=left, unknown=left)

    def _expand(self, text: str) -> list[int | Truth | str]:
        """Tokens with macros replaced: integers, unknown values, operators."""
        budget = [_TOKENS_LIMIT]
        return list(self._expanded(self._tokens(text), frozenset(), budget))

    def _expanded(
        self, tokens: list[str], hidden: frozenset[str], budget: list[int]
    ) -> Iterator[int | Truth | str]:
        if len(hidden) > _NESTING_LIMIT:
            raise ConditionError("macros nested too deep")
        index = 0
        while index < len(tokens):
            budget[0] -= 1
            if budget[0] < 0:
                raise ConditionError("condition too long")
            token = tokens[index]
            index += 1
            if token[0].isdigit():
                yield _integer(token)
            elif not (token[0].isalpha() or token[0] == "_"):
                yield token
            elif token == "defined":
                name, index = _defined_name(tokens, index)
                known = self.defined(name)
                yield int(known is Truth.TRUE) if known in (Truth.TRUE, Truth.FALSE) else known
            elif token in ("true", "false"):
                yield int(token == "true")
            else:
                arguments, after = _arguments(tokens, index)
                macro = self.macros.get(token)
                if macro is None or token in hidden:
                    yield 0 if _FOREIGN.fullmatch(token) else _unknown(token)
                    index = after if arguments is not None else index
                elif macro.defined is Truth.FALSE:
                    yield 0
                elif macro.body is None:
                    yield macro.unknown
                    index = after if arguments is not None else index
                else:
                    body = self._tokens(macro.body)
                    if macro.parameters is not None:
                        body = _substituted(body, macro.parameters, arguments or [])
                        index = after
                    yield from self._expanded(body, hidden | {token}, budget)

    def _tokens(self, text: str) -> list[str]:
        return _tokens(_HAS_INCLUDE.sub(self._has, text))

    def _has(self, match: re.Match[str]) -> str:
        there = self.has_include(match[1])
        return "unknown_header" if there is None else str(int(there))


def _unknown(name: str) -> Truth:
    return Truth.EITHER if _EITHER.fullmatch(name) else Truth.PROJECT


def _truth(value: Value) -> Truth:
    if isinstance(value, Truth):
        return value
    return Truth.TRUE if value else Truth.FALSE


_HAS_INCLUDE = re.compile(r"__has_include(?:_next)?\s*\(\s*[<\"]([^>\"]*)[>\"]\s*\)")


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConditionError(text[position : position + 20])
        tokens.append(match[0].strip())
        position = match.end()
        if len(tokens) > _TOKENS_LIMIT:
            raise ConditionError("condition too long")
    return tokens


def _integer(token: str) -> int:
    digits = token.rstrip("uUlLzZ").replace("'", "")
    if digits[:2].lower() in ("0x", "0b"):
        return int(digits, 0)
    return int(digits, 8 if digits.startswith("0") and digits.strip("0") else 10)


def _defined_name(tokens: list[str], index: int) -> tuple[str, int]:
    if tokens[index : index + 1] == ["("]:
        if len(tokens) < index + 3 or tokens[index + 2] != ")":
            raise ConditionError("defined(")
        return tokens[index + 1], index + 3
    if index >= len(tokens):
        raise ConditionError("defined")
    return tokens[index], index + 1


def _arguments(tokens: list[str], index: int) -> tuple[list[list[str]] | None, int]:
    """The arguments of a call that starts at ``index``, and the index behind it; None: no call."""
    if tokens[index : index + 1] != ["("]:
        return None, index
    arguments: list[list[str]] = [[]]
    depth = 0
    for position in range(index, len(tokens)):
        token = tokens[position]
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth == 0:
            return arguments, position + 1
        if token == "," and depth == 1:
            arguments.append([])
        elif position > index:
            arguments[-1].append(token)
    raise ConditionError("(")


def _substituted(
    body: list[str], parameters: tuple[str, ...], arguments: list[list[str]]
) -> list[str]:
    given = dict(zip(parameters, arguments, strict=False))
    return [part for token in body for part in given.get(token, [token])]


class _Expression:
    """Precedence climbing; operands are evaluated, since nothing has a side effect."""

    def __init__(self, tokens: list[int | Truth | str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def value(self) -> Value:
        """Of all tokens; raises `ConditionError`."""
        value = self._ternary()
        if self._at != len(self._tokens):
            raise ConditionError("tokens after the condition")
        return value

    def _next(self) -> int | Truth | str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _ternary(self) -> Value:
        condition = self._binary(1)
        if self._next() != "?":
            return condition
        self._at += 1
        first = self._ternary()
        if self._next() != ":":
            raise ConditionError("? without :")
        self._at += 1
        second = self._ternary()
        known = _truth(condition)
        return {Truth.TRUE: first, Truth.FALSE: second}.get(known, known)

    def _binary(self, least: int) -> Value:
        left = self._unary()
        while True:
            operator = self._next()
            if not isinstance(operator, str) or _PRECEDENCE.get(operator, 0) < least:
                return left
            self._at += 1
            left = _apply(operator, left, self._binary(_PRECEDENCE[operator] + 1))

    def _unary(self) -> Value:
        token = self._next()
        self._at += 1
        self._depth += 1
        if self._depth > _NESTING_LIMIT * 4:
            raise ConditionError("nested too deep")
        if isinstance(token, (int, Truth)):
            return token
        if token == "(":
            value = self._ternary()
            if self._next() != ")":
                raise ConditionError("( without )")
            self._at += 1
            return value
        if token not in ("!", "-", "+", "~"):
            raise ConditionError(f"unexpected {token}")
        value = self._unary()
        if isinstance(value, Truth):
            return value.negated if token == "!" else value
        return {"!": int(not value), "-": -value, "+": value, "~": ~value}[token]


def _apply(operator: str, left: Value, right: Value) -> Value:
    if operator in ("&&", "||"):
        truth = (min if operator == "&&" else max)(_truth(left), _truth(right))
        return {Truth.TRUE: 1, Truth.FALSE: 0}.get(truth, truth)
    if isinstance(left, Truth) or isinstance(right, Truth):
        unknown = min(value for value in (left, right) if isinstance(value, Truth))
        # What a number that the build sets compares to is not known, and neither is that it does not.
        return Truth.PROJECT if unknown is Truth.DEFAULT else unknown
    if operator in ("/", "%"):
        if right == 0:
            raise ConditionError("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - right * quotient
    return _ARITHMETIC[operator](left, right)
