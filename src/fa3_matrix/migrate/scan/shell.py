"""Shell scripts and makefiles: command lines of nvcc, lists of architectures, libraries, packages."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from fa3_matrix.migrate.difference import Change, Difference, Remedy
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import State
from fa3_matrix.migrate.scan import architectures, libraries, packages
from fa3_matrix.migrate.scan.comments import blanked
from fa3_matrix.migrate.scan.conditions import VERSION_NAME, Branches, evaluate
from fa3_matrix.migrate.scan.source import Source, name_of

_SUFFIXES = (".sh", ".bash", ".zsh", ".ksh", ".mk", ".mak", ".make", ".bats")
_NAMES = ("makefile", "gnumakefile", "configure.ac", "build", "justfile")
_SHEBANG = re.compile(rb"#!\s*\S*(?:/|env\s+(?:-S\s+)?)(?:ba|da|z|k)?sh\b")


def accepts(path: str, head: bytes) -> bool:
    """By name, or by the interpreter that the first line names."""
    name = name_of(path)
    return (
        name.endswith(_SUFFIXES)
        or name.split(".")[0] in _NAMES[:2]
        or name in _NAMES[2:4]
        or _SHEBANG.match(head) is not None
    )


def find(file: str, text: str, difference: Difference) -> Iterator[Finding]:
    """All there is to say of one script or makefile."""
    source = Source(file, blanked(text), difference)
    for start, end, state in lines(source):
        yield from commands(source, start, end, state)


# Variables that hold architectures: SMS ?= 50 60, TORCH_CUDA_ARCH_LIST="7.0;8.0", -DCMAKE_CUDA_ARCHITECTURES=70,
# TF_CUDA_COMPUTE_CAPABILITIES=6.0,7.0
ARCHITECTURE_VARIABLE = (
    r"(?:SMS|CUDAARCHS|(?:\w*_)?(?:CUDA|NVCC|GPU|SM)_?ARCH(?:S|ES|_LIST|ITECTURES?|_BIN|_PTX|_NUMBERS?)?"
    r"|(?:\w*_)?CUDA_COMPUTE_CAPABILIT(?:Y|IES))"
)
_LIST = re.compile(
    rf"""(?<![\w$({{]){ARCHITECTURE_VARIABLE}(?::\w+)?(?:\s*[:+?]?=\s*|[ \t]+(?=["'\d]))
    (?P<value>"[^"\n]*"|'[^'\n]*'|[^\s"'#;&|)]+(?:[ \t]+\d+(?:\.\d+)?(?:\+PTX)?(?=\s|$))*)""",
    re.VERBOSE | re.IGNORECASE,
)
_NVCC = re.compile(r"(?<![\w-])nvcc(?=[\s\"']|$)|\$[({]?\w{0,40}NVCC[)}]?(?=[\s\"']|$)")
_ASSIGNMENT = re.compile(
    r"(?:^|[;&|)]|\b(?:then|do|else)\b)\s*(?:export\s+|override\s+|declare\s+(?:-\w+\s+)?)?[\w.]+\s*[:+?]?="
)
DIALECT = re.compile(
    r"(?<![\w-])(?:--?std)[=\s](?P<standard>(?:c|gnu)\+\+(?:98|03|0x|11|1y|14))(?!\w)"
)
_FLAGS_VARIABLE = re.compile(r"\b\w{0,40}(?:NV|CU)\w{0,40}FLAGS", re.IGNORECASE)


def commands(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    """Of one logical line."""
    text = source.text[start:end]
    state = _short_circuit(text, state, source.difference.new)
    nvcc = _NVCC.search(text)
    lists = list(_LIST.finditer(source.text, start, end))
    spans = [match.span("value") for match in lists]
    for match in lists:
        if not re.search(r"sm_|compute_", match["value"]):
            yield from architectures.listed(source, *match.span("value"), state)
    bare = bool(nvcc or _ASSIGNMENT.search(text) or spans)
    yield from architectures.options(source, start, end, state, bare=bare)
    if nvcc or _FLAGS_VARIABLE.search(text):
        yield from _flags(source, start + (nvcc.end() if nvcc else 0), end, state, bool(nvcc))
    yield from host_compiler(source, start, end, state)
    yield from libraries.find(source, start, end, state)
    yield from packages.wheels(source, start, end, state)
    yield from packages.folders(source, start, end, state)
    yield from packages.system(source, start, end, state)
    yield from packages.images(source, start, end, state)


def _short_circuit(text: str, state: State, new: str) -> State:
    """``[ "$CUDA_MAJOR" -lt 13 ] && ...`` on one line."""
    guard = re.match(
        r"\s*(?:\[\[?|\(\()(?P<condition>[^&|]*?)(?:\]\]?|\)\))\s*(?P<then>&&|\|\|)", text
    )
    if state is State.ACTIVE and guard:
        value = evaluate(guard["condition"], new)
        if value is not None and value != (guard["then"] == "&&"):
            return State.INACTIVE
    return state


def _flags(source: Source, start: int, end: int, state: State, nvcc: bool) -> Iterator[Finding]:
    for change in source.difference.by_rule.get("FLAG-CHANGED", {}).values():
        if not change.name.startswith("-"):
            continue
        # One letter is the option of many programs: only where nvcc itself stands before it.
        if not nvcc and len(change.name) < 4:
            continue
        pattern = rf"(?<!\S){re.escape(change.name)}(?=[\s=;&|]|$)"
        for match in re.finditer(pattern, source.text[start:end]):
            yield changed_option(
                source, (start + match.start(), start + match.end()), change, state
            )
    for match in DIALECT.finditer(source.text, start, end):
        yield dialect(source, match.span(), match["standard"], state)
    rest = source.text[start:end]
    compiles = re.search(r"\S\.cu\b", rest) and not re.search(r"[$`@<]", rest)
    if nvcc and compiles and not re.search(r"-arch|-gencode|--gpu-|--generate-code", rest):
        default = source.only("ARCH-DEFAULT")
        if default:
            yield source.finding(
                "ARCH-DEFAULT",
                (start, end),
                default.name,
                f"No architecture is named: nvcc takes {default.new}, and took {default.old}.",
                change=default,
                state=state,
            )


def changed_option(source: Source, span: tuple[int, int], change: Change, state: State) -> Finding:
    """That an option of nvcc is gone or means something else."""
    return source.finding(
        change.rule,
        span,
        change.name,
        f"nvcc's {change.name} means {change.new}, and meant {change.old}."
        if change.new
        else f"nvcc {source.difference.new} has no option {change.name}.",
        change=change,
        state=state,
    )


_INTEL = re.compile(
    r"(?:-ccbin|--compiler-bindir|CMAKE_CUDA_HOST_COMPILER|CUDA_HOST_COMPILER|CUDAHOSTCXX|NVCC_CCBIN)(?::\w+)?"
    r"""[\s=]+["']?(?:[\w./-]*/)?(?:icc|icpc)(?![\w-])"""
)


def host_compiler(source: Source, start: int, end: int, state: State) -> Iterator[Finding]:
    """Intel's classic compilers, given to nvcc as its host compiler."""
    change = source.change("HOSTCC", "icc")
    for match in _INTEL.finditer(source.text, start, end) if change else ():
        yield source.finding(
            "HOSTCC",
            match.span(),
            "icc",
            f"CUDA {source.difference.new} refuses Intel's classic compilers.",
            change=change,
            state=state,
        )


def dialect(source: Source, span: tuple[int, int], standard: str, state: State) -> Finding:
    """That CUDA code is compiled as C++ older than 17.

    Latent unless the file itself speaks of Thrust, CUB or libcu++: code without them still compiles.
    """
    uses_cccl = re.search(r"\b(?:thrust|cub|cccl|libcudacxx)\b", source.text, re.IGNORECASE)
    if state is State.ACTIVE and not uses_cccl:
        state = State.LATENT
    return source.finding(
        "DIALECT",
        span,
        standard,
        f"Thrust, CUB and libcu++ of CUDA {source.difference.new} do not compile as {standard}.",
        change=source.only("DIALECT"),
        remedy=Remedy("Compile as C++17 or later; both toolkits do."),
        state=state,
        confidence="high" if uses_cccl else "medium",
    )


_MAKE = re.compile(
    r"\s*(?:(?P<else>else)\b\s*)?(?:(?P<kind>ifn?eq|ifn?def)\s*(?P<condition>.*))?$", re.DOTALL
)
_WORD = re.compile(
    r"(?:^|[;&|]|\bthen\b|\bdo\b|\belse\b)\s*(?P<word>if|elif|else|fi|case|esac)(?![\w-])"
)


def lines(source: Source) -> Iterator[tuple[int, int, State]]:
    """Each logical line: its offsets, and what the conditions around it make of it."""
    branches = Branches()
    cases: list[str] = []
    in_arm: list[bool] = []
    for start, end in _logical(source.text):
        text = source.text[start:end]
        stripped = text.strip()
        make = _MAKE.match(stripped)
        if make and make["kind"]:
            value = _make_condition(make["kind"], make["condition"], source.difference.new)
            if make["else"]:
                branches.otherwise(value)
            else:
                branches.begin(value)
        elif stripped in ("else", "endif"):
            (branches.end if stripped == "endif" else branches.otherwise)()
        else:
            _shell_words(stripped, branches, cases, in_arm, source.difference.new)
        yield start, end, branches.state
        if cases and in_arm and in_arm[-1] and re.search(r";;&?\s*$", stripped):
            in_arm[-1] = False


def _logical(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in re.finditer(r"(?<!\\)\r?\n|\Z", text):
        if start < match.start():
            yield start, match.start()
        start = match.end()


def _make_condition(kind: str, condition: str, new: str) -> bool | None:
    if kind in ("ifdef", "ifndef"):
        # Unset unless the caller sets it: the default of a makefile.
        return True if kind == "ifndef" else None
    sides = re.match(
        r"""\(\s*(.*)\s*,\s*(.*?)\s*\)$|["'](.*?)["']\s+["'](.*?)["']$""", condition.strip()
    )
    if sides is None:
        return None
    left, right = (sides[1], sides[2]) if sides[1] is not None else (sides[3], sides[4])
    computed = re.search(r"\$\(shell\s+(?:expr|test|\[)\s+(.*?)\)?$", left)
    if computed and right in ("1", "0", ""):
        value = evaluate(computed[1].replace("\\", "").replace("'", ""), new)
        value = None if value is None else value == (right == "1")
    elif not right:
        value = True  # "if it is empty, use this": the default
    else:
        value = evaluate(f"{left} == {right}", new)
    return value if kind == "ifeq" or value is None else not value


def _shell_words(
    text: str, branches: Branches, cases: list[str], in_arm: list[bool], new: str
) -> None:
    arm = re.match(r"\(?(?P<patterns>[\w.*?\"'|\s$-]+)\)", text) if cases and in_arm else None
    if arm and not in_arm[-1]:
        value = _case_value(cases[-1], arm["patterns"], new)
        branches.otherwise(value)
        in_arm[-1] = True
        return
    for match in _WORD.finditer(text):
        word = match["word"]
        rest = text[match.end() :]
        if word == "if":
            branches.begin(_test(rest, new))
        elif word == "elif":
            branches.otherwise(_test(rest, new))
        elif word == "else":
            branches.otherwise()
        elif word == "fi":
            branches.end()
        elif word == "case":
            cases.append(rest)
            in_arm.append(False)
            branches.begin(False)  # no arm is entered yet
        elif cases:
            branches.end()
            cases.pop()
            in_arm.pop()


def _test(text: str, new: str) -> bool | None:
    condition = re.split(r";\s*then\b|\bthen\b", text)[0].strip().rstrip(";").strip()
    empty = re.fullmatch(r"""\[\[?\s+-z\s+["']?\$\{?\w+(?::-)?\}?["']?\s+\]\]?""", condition)
    return True if empty else evaluate(condition.strip("[]() "), new)


def _case_value(subject: str, patterns: str, new: str) -> bool | None:
    alternatives = [p.strip().strip("\"'") for p in patterns.split("|")]
    if "*" in alternatives:
        return True
    if not VERSION_NAME.search(subject):
        return None
    version = new.split(".")[0] if "major" in subject.lower() else new
    return any(fnmatchcase(version, p) or fnmatchcase(f"{version}.0", p) for p in alternatives)
