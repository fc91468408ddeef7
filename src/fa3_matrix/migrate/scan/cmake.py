"""CMake: architectures, options of nvcc, targets that are gone, the C++ standard of CUDA code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fa3_matrix.migrate.difference import Difference, Remedy
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan import architectures, libraries, packages, shell
from fa3_matrix.migrate.scan.conditions import Branches, evaluate
from fa3_matrix.migrate.scan.source import Source, name_of


def accepts(path: str, head: bytes) -> bool:  # noqa: ARG001  (every scanner is asked alike)
    """CMakeLists.txt and .cmake, also as templates (.cmake.in), and presets."""
    name = name_of(path)
    return (
        name == "cmakelists.txt"
        or name.endswith((".cmake", ".cmake.in"))
        or name in ("cmakepresets.json", "cmakeuserpresets.json")
    )


@dataclass(frozen=True)
class Argument:
    """One argument: its text without quotes, and its offsets (of the text)."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Command:
    """``name(arguments)``; the name in lower case."""

    name: str
    start: int
    end: int
    arguments: tuple[Argument, ...]

    @property
    def words(self) -> list[str]:
        """The arguments' texts."""
        return [argument.text for argument in self.arguments]


_TOKEN = re.compile(
    r"""\#\[(?P<comment>=*)\[.*?(?:\](?P=comment)\]|\Z)     # bracket comment
      | \#[^\n]*
      | \[(?P<bracket>=*)\[(?P<raw>.*?)(?:\](?P=bracket)\]|\Z)
      | "(?P<quoted>(?:\\.|[^"\\])*)(?:"|\Z)
      | (?P<open>\() | (?P<close>\))
      | (?P<word>(?:\\.|\$[<{][^\s()"]*|[^\s()"\#])(?:\\.|"[^"\n]*"|[^\s()"])*)""",
    re.VERBOSE | re.DOTALL,
)


def parse(text: str) -> Iterator[Command]:
    """The commands of a CMake file, in order; what isn't closed ends with the file."""
    name: tuple[str, int] | None = None
    depth = 0
    arguments: list[Argument] = []
    for token in _TOKEN.finditer(text):
        if token["open"]:
            depth += 1
            if depth > 1:
                arguments.append(Argument("(", *token.span()))
        elif token["close"]:
            depth = max(0, depth - 1)
            if depth:
                arguments.append(Argument(")", *token.span()))
            elif name:
                yield Command(name[0].lower(), name[1], token.end(), tuple(arguments))
                name, arguments = None, []
        elif token["word"] and not depth:
            name, arguments = (token["word"], token.start()), []
        else:
            group = next((g for g in ("raw", "quoted", "word") if token[g] is not None), None)
            if depth and group:
                arguments.append(Argument(token[group], *token.span(group)))


def find(file: str, text: str, difference: Difference) -> Iterator[Finding]:
    """All there is to say of one file."""
    if file.endswith(".json"):
        yield from _presets(Source(file, text, difference))
        return
    source = Source(file, _without_comments(text), difference)
    branches = Branches()
    commands = list(parse(source.text))
    for command in commands:
        if command.name == "if":
            branches.begin(_condition(command, difference.new))
        elif command.name == "elseif":
            branches.otherwise(_condition(command, difference.new))
        elif command.name == "else":
            branches.otherwise()
        elif command.name == "endif":
            branches.end()
        elif command.name != "message":
            yield from _command(source, command, branches.state)
    yield from _default_architecture(source, commands)


def _condition(command: Command, new: str) -> bool | None:
    text = " ".join(command.words)
    # The project's default holds where the caller says nothing.
    if re.fullmatch(r"NOT (?:DEFINED )?\S*ARCH\S*", text):
        return True
    return evaluate(text, new)


_ARCHITECTURES = re.compile(
    rf"(?:CMAKE_)?{shell.ARCHITECTURE_VARIABLE}|CUDA_ARCHITECTURES", re.IGNORECASE
)
_STANDARD = re.compile(r"(?:CMAKE_)?CUDA_STANDARD")


def _command(source: Source, command: Command, state: State) -> Iterator[Finding]:
    words = command.words
    for index, argument in enumerate(command.arguments[:-1]):
        if _ARCHITECTURES.fullmatch(argument.text):
            yield from _listed(source, command, index + 1, state)
            break
    if command.name == "cuda_select_nvcc_arch_flags":
        yield from _listed(source, command, 1, state)
    for index, word in enumerate(words[:-1]):
        if _STANDARD.fullmatch(word) and words[index + 1] in ("98", "03", "11", "14"):
            value = command.arguments[index + 1]
            span = (value.start, value.end)
            yield shell.dialect(source, span, f"c++{value.text}", state)
    for argument in command.arguments:
        if argument.text in ("cuda_std_03", "cuda_std_11", "cuda_std_14"):
            span = (argument.start, argument.end)
            yield shell.dialect(source, span, f"c++{argument.text[-2:]}", state)
    if command.arguments:
        # Whole commands, not arguments: -gencode and its value may be two, on two lines.
        span = (command.arguments[0].start, command.arguments[-1].end)
        yield from architectures.options(source, *span, state)
        yield from shell.host_compiler(source, *span, state)
        yield from libraries.find(source, *span, state)
        yield from packages.wheels(source, *span, state)
        yield from packages.folders(source, *span, state)
        if re.search(r"CUDA|NVCC", source.text[slice(*span)]):
            # A quote may stand before the option.
            for match in shell.DIALECT.finditer(source.text, *span):
                yield shell.dialect(source, match.span(), match["standard"], state)
        yield from _long_flags(source, span, state)
    if command.name == "find_package":
        yield from _package(source, command, state)


def _listed(source: Source, command: Command, first: int, state: State) -> Iterator[Finding]:
    values = []
    for argument in command.arguments[first:]:
        if argument.text in ("CACHE", "PARENT_SCOPE", "PROPERTIES") or re.fullmatch(
            r"[A-Z]+(?:_[A-Z]+)+", argument.text
        ):
            break
        values.append(argument)
    if values:
        span = (values[0].start, values[-1].end)
        yield from architectures.listed(source, *span, state)


def _without_comments(text: str) -> str:
    """``text`` of the same length, blanks for its comments."""
    return _TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0].startswith("#") else m[0], text)


def _long_flags(source: Source, span: tuple[int, int], state: State) -> Iterator[Finding]:
    for change in source.difference.by_rule.get("FLAG-CHANGED", {}).values():
        # Short ones are options of many programs: `-r` says nothing here.
        if not change.name.startswith("--"):
            continue
        pattern = re.compile(rf"(?<![\w-]){re.escape(change.name)}(?![\w-])")
        for match in pattern.finditer(source.text, *span):
            yield shell.changed_option(source, match.span(), change, state)


def _package(source: Source, command: Command, state: State) -> Iterator[Finding]:
    words = command.words
    span = (command.start, command.end)
    if words[:1] == ["CUDA"]:
        yield source.finding(
            "DEPRECATED",
            span,
            "FindCUDA",
            "CMake's FindCUDA is deprecated, and gone under policy CMP0146 (CMake 3.27); its lists of "
            "architectures end before CUDA 13.",
            remedy=Remedy("Enable the language CUDA, and find_package(CUDAToolkit)."),
            severity=Severity.DEPRECATED,
            state=state,
        )
    exact = re.match(r"CUDAToolkit (\d+(?:\.\d+)*) EXACT\b", " ".join(words))
    if exact and packages.older(source, exact[1]):
        yield source.finding(
            "IMAGE",
            span,
            f"CUDAToolkit {exact[1]}",
            f"Only CUDA {exact[1]} is taken, not {source.difference.new}.",
            remedy=Remedy("Leave EXACT out: the version is then the least that will do."),
            state=state,
        )


def _default_architecture(source: Source, commands: list[Command]) -> Iterator[Finding]:
    """A project of CUDA whose file names no architecture anywhere: CMake takes nvcc's default."""
    change = source.only("ARCH-DEFAULT")
    if change is None or re.search(r"ARCH|gencode", source.text):
        return
    for command in commands:
        if command.name in ("project", "enable_language") and "CUDA" in command.words:
            yield source.finding(
                "ARCH-DEFAULT",
                (command.start, command.end),
                change.name,
                f"No architecture is named here: nvcc takes {change.new}, and took {change.old}.",
                change=change,
                confidence="low",
            )
            return


_CACHE = re.compile(
    r'"CMAKE_CUDA_ARCHITECTURES"\s*:\s*(?:\{[^}]*"value"\s*:\s*)?"(?P<value>[^"]*)"'
)


def _presets(source: Source) -> Iterator[Finding]:
    for match in _CACHE.finditer(source.text):
        yield from architectures.listed(source, *match.span("value"), State.ACTIVE)
    yield from architectures.options(source, 0, len(source.text), State.ACTIVE)
