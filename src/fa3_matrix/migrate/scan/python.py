"""Python: modules of cuda-python, wheels and their folders, build scripts, requirements, Cython's declarations."""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.rules import State
from fa3_matrix.migrate.scan import architectures, cython, libraries, packages, shell
from fa3_matrix.migrate.scan.comments import blanked
from fa3_matrix.migrate.scan.conditions import evaluate
from fa3_matrix.migrate.scan.conditions import state as state_of
from fa3_matrix.migrate.scan.source import Source, name_of

_REQUIREMENTS = re.compile(
    r"pyproject\.toml|setup\.cfg|tox\.ini|pipfile(?:\.lock)?|(?:.*[-_.])?requirements?[\w.-]*\.(?:txt|in)|constraints[\w.-]*\.txt"
    r"|(?:.*[-_])?environment[\w.-]*\.ya?ml|meta\.ya?ml|recipe\.ya?ml|conda_build_config\.ya?ml|dependencies\.ya?ml|poetry\.lock|uv\.lock"
)


def accepts(path: str, head: bytes) -> bool:
    """Python, Cython, requirements of pip, Poetry, Pipenv and conda."""
    return (
        path.endswith((".py", ".pyi", *cython.SUFFIXES))
        or is_requirements(path)
        or re.match(rb"#!\s*\S*(?:/|env\s+(?:-S\s+)?)python", head) is not None
    )


def is_requirements(path: str) -> bool:
    """By name; also every .txt and .in in a folder called requirements."""
    in_folder = re.search(r"(?:^|/)requirements/[^/]*\.(?:txt|in)$", path) is not None
    return in_folder or _REQUIREMENTS.fullmatch(name_of(path)) is not None


def find(file: str, text: str, difference: Difference) -> Iterator[Finding]:
    """All there is to say of one file."""
    if is_requirements(file):
        yield from _requirements(Source(file, blanked(text), difference))
    elif file.endswith(cython.SUFFIXES):
        yield from cython.find(file, text, difference)
    else:
        yield from _python(Source(file, text, difference))


def _requirements(source: Source) -> Iterator[Finding]:
    whole = (0, len(source.text))
    for match in re.finditer(r"[^\n]+", source.text):
        yield from shell.commands(source, *match.span(), State.ACTIVE)
    if source.file.endswith((".yml", ".yaml")):
        yield from packages.images(source, *whole, State.ACTIVE)


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in somebody else's strings
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


# Whatever is looked for has one of these in it; most Python has none.
_CONCERNED = re.compile(
    r"cu(?:da|\d\d)|sm_\d|compute_\d|nvidia|nvtoolsext|lib(?:cu|nv|npp)|gpu_?arch|\bsms\b",
    re.IGNORECASE,
)


def _python(source: Source) -> Iterator[Finding]:
    if not _CONCERNED.search(source.text):
        return
    # Parsing takes ten times as long as looking: what isn't in the text isn't in its strings either.
    everywhere = _strings(source, lambda _line: State.ACTIVE)
    if not _may_import(source) and next(everywhere, None) is None:
        return
    tree = _parsed(source.text)
    if tree is None:
        strings = Source(source.file, blanked(source.text), source.difference)
        yield from _lines_with_imports(strings)
        guards = Guards([])
    else:
        nodes = list(ast.walk(tree))
        guards = Guards.of(nodes, source)
        strings = Source(source.file, strings_alone(source.text, nodes), source.difference)
        yield from _imports(source, nodes, guards)
    yield from _strings(strings, guards.state)


# --- modules -----------------------------------------------------------------------------------------


def _modules(source: Source) -> dict[str, Change]:
    """Moved and removed modules by their old names."""
    return source.difference.by_rule.get("PY-IMPORT", {})


def _may_import(source: Source) -> bool:
    names = _modules(source)
    parents = "|".join({re.escape(name.rpartition(".")[0]) for name in names})
    whole = "|".join(map(re.escape, [*names, "import nvidia.", "from nvidia"]))
    pattern = rf"\bfrom\s+(?:{parents})\s+import\b|(?<!\w)(?:{whole})"
    return re.search(pattern, source.text) is not None


def _imports(source: Source, nodes: list[ast.AST], guards: "Guards") -> Iterator[Finding]:
    moved = _modules(source)
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                change = _moved(alias.name, moved)
                if change:
                    # Without `as`, the uses spell the module's name too.
                    edit = _renamed(source, node, alias.name, change) if alias.asname else ()
                    yield _moved_finding(source, node, change, edit, guards)
                elif alias.name.startswith("nvidia."):
                    yield from _wheel_module(source, node, guards)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            change = _moved(node.module, moved)
            if change:
                edit = _renamed(source, node, node.module, change)
                yield _moved_finding(source, node, change, edit, guards)
                continue
            changes = [moved.get(f"{node.module}.{alias.name}") for alias in node.names]
            for index, change in enumerate(changes):
                if change:
                    edit = (
                        _taken_from(source, node, changes) if index == changes.index(change) else ()
                    )
                    first = all(other is None for other in changes[:index])
                    yield _moved_finding(source, node, change, edit if first else (), guards)
            if node.module.split(".")[0] == "nvidia":
                yield from _wheel_module(source, node, guards)
        elif isinstance(node, ast.Call) and node.args and _is_import_call(node.func):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                change = _moved(name.value, moved)
                if change:
                    edit = _renamed(source, node, name.value, change)
                    yield _moved_finding(source, node, change, edit, guards)


def _moved(name: str, moved: dict[str, Change]) -> Change | None:
    parts = name.split(".")
    return next(
        (moved[head] for n in range(len(parts), 0, -1) if (head := ".".join(parts[:n])) in moved),
        None,
    )


def _is_import_call(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__", "importorskip", "lazy_import")


def _moved_finding(
    source: Source,
    node: ast.stmt | ast.expr,
    change: Change,
    edits: tuple[Edit, ...],
    guards: "Guards",
) -> Finding:
    new = change.successor
    return source.finding(
        change.rule,
        _span(source, node),
        change.name,
        f"{change.name} is {new} since cuda-python {change.since or source.difference.new}."
        if new
        else f"{change.name} is gone.",
        change=change,
        state=guards.state(node.lineno),
        edits=edits,
    )


def _renamed(
    source: Source, node: ast.stmt | ast.expr, name: str, change: Change
) -> tuple[Edit, ...]:
    new = change.successor
    start, end = _span(source, node)
    found = re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", source.text[start:end])
    if new is None or found is None:
        return ()
    head = start + found.start()
    return (source.edit(head, head + len(change.name), new),)


def _taken_from(
    source: Source, node: ast.ImportFrom, changes: list[Change | None]
) -> tuple[Edit, ...]:
    """``from cuda import cudart`` -> ``from cuda.bindings import runtime as cudart``: all its names move together."""
    start, end = _span(source, node)
    if "\n" in source.text[start:end] or "#" in source.text[start:end]:
        return ()
    parents, names = set(), []
    for alias, change in zip(node.names, changes, strict=True):
        new = change.successor if change else None
        if new is None:
            return ()
        parent, _, name = new.rpartition(".")
        local = alias.asname or alias.name
        parents.add(parent)
        names.append(name if name == local else f"{name} as {local}")
    if len(parents) != 1:
        return ()
    return (source.edit(start, end, f"from {parents.pop()} import {', '.join(names)}"),)


def _wheel_module(source: Source, node: ast.stmt, guards: "Guards") -> Iterator[Finding]:
    """``import nvidia.cublas``: packages that hold the wheels' files."""
    start, end = _span(source, node)
    dotted = re.sub(r"from\s+nvidia\s+import\s+", "nvidia.", source.text[start:end])
    part = re.search(r"\bnvidia\.(\w+)", dotted)
    change = source.change("PY-WHEEL", f"nvidia/{part[1]}") if part else None
    if change and change.new:
        yield source.finding(
            "PY-WHEEL",
            (start, end),
            change.name,
            f"The wheels of CUDA {source.difference.new} have no such package: their files are in {change.new}.",
            change=change,
            state=guards.state(node.lineno),
            confidence="medium",
        )


def _lines_with_imports(source: Source) -> Iterator[Finding]:
    """Of a file that is no Python of today (Python 2, a template): by lines."""
    for name, change in _modules(source).items():
        parent, _, child = name.rpartition(".")
        pattern = (
            rf"^[ \t]*(?:import\s+{re.escape(name)}|from\s+{re.escape(name)}\s+import"
            rf"|from\s+{re.escape(parent)}\s+import\s[^\n]*\b{child})(?!\w)[^\n]*"
        )
        for match in re.finditer(pattern, source.text, re.MULTILINE):
            start = match.start() + len(match[0]) - len(match[0].lstrip())
            yield source.finding(
                change.rule,
                (start, match.end()),
                name,
                f"{name} is {change.successor or 'gone'}.",
                change=change,
                confidence="medium",
            )


def _span(source: Source, node: ast.stmt | ast.expr) -> tuple[int, int]:
    return (
        _offset(source, node.lineno, node.col_offset),
        _offset(source, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset),
    )


def _offset(source: Source, line: int, column: int) -> int:
    """``ast`` counts columns in bytes of UTF-8."""
    start = source.starts[line - 1]
    text = source.text[start : start + column]
    return start + len(text.encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))


# --- strings -----------------------------------------------------------------------------------------


def strings_alone(text: str, nodes: list[ast.AST]) -> str:
    """``text`` of the same length with only its strings and punctuation; docstrings (told by ``nodes``) are blanked."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    kept = list(re.sub(r"[^\n]", " ", text))
    docstrings = {
        node.value.lineno
        for node in nodes
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    strings = {
        getattr(tokenize, name)
        for name in ("STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END", "OP")
        if hasattr(tokenize, name)
    }
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type not in strings:
                continue
            if token.type == tokenize.STRING and token.start[0] in docstrings:
                continue
            start = starts[token.start[0] - 1] + token.start[1]
            end = starts[token.end[0] - 1] + token.end[1]
            kept[start:end] = text[start:end]
    except (tokenize.TokenError, SyntaxError, IndexError):
        return blanked(text)
    return "".join(kept)


_LIST_SETTING = re.compile(
    rf"""["']{shell.ARCHITECTURE_VARIABLE}["']\s*(?:\]\s*=|[,:])\s*f?(?P<value>"[^"\n]*"|'[^'\n]*')""",
    re.IGNORECASE,
)


def _strings(source: Source, state: Callable[[int], State]) -> Iterator[Finding]:
    text = source.text

    def placed(
        detector: Callable[[Source, int, int, State], Iterator[Finding]],
    ) -> Iterator[Finding]:
        for finding in detector(source, 0, len(text), State.ACTIVE):
            # What the file says of itself (it names the successor) counts before its conditions.
            decided = finding.state is not State.ACTIVE
            yield finding if decided else replace(finding, state=state(finding.line))

    for setting in _LIST_SETTING.finditer(text):
        line, _ = source.position(setting.start())
        yield from architectures.listed(source, *setting.span("value"), state(line))
    for defined in re.finditer(r"-DCMAKE_CUDA_ARCHITECTURES(?::\w+)?=(?P<value>[\d;a-z-]+)", text):
        line, _ = source.position(defined.start())
        yield from architectures.listed(source, *defined.span("value"), state(line))
    yield from placed(architectures.options)
    yield from placed(libraries.find)
    yield from placed(packages.wheels)
    yield from placed(packages.folders)
    yield from placed(packages.images)


# --- guards ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guards:
    """What stands behind conditions: (first line, last line, whether it is reached with the new toolkit)."""

    spans: list[tuple[int, int, bool | None]]

    def state(self, line: int) -> State:
        """Of a line."""
        return state_of(value for first, last, value in self.spans if first <= line <= last)

    @classmethod
    def of(cls, nodes: list[ast.AST], source: Source) -> "Guards":
        """Of the ``if`` and ``try`` statements among the nodes of a module."""
        spans: list[tuple[int, int, bool | None]] = []
        moved = _modules(source)
        parents = {new.rpartition(".")[0] for c in moved.values() if (new := c.successor)}
        for node in nodes:
            if isinstance(node, (ast.If, ast.IfExp)):
                value = _condition(node.test, source.difference.new)
                bodies = (node.body, node.orelse)
                for body, reached in zip(bodies, (value, _opposite(value)), strict=True):
                    spans.extend(_lines(body, reached))
            elif isinstance(node, ast.Try) and any(map(_catches_import, node.handlers)):
                handlers = [statement for h in node.handlers for statement in h.body]
                # Each side is the other's fallback where one of them takes the new name.
                ready = _imports_any((*node.body, *handlers), parents)
                reached = False if ready else None
                spans.extend(_lines(node.body, reached))
                spans.extend(_lines(handlers, reached))
        return cls(spans)


def _lines(
    body: list[ast.stmt] | ast.expr, value: bool | None
) -> Iterator[tuple[int, int, bool | None]]:
    nodes = body if isinstance(body, list) else [body]
    if nodes:
        last = nodes[-1]
        yield nodes[0].lineno, last.end_lineno or last.lineno, value


def _opposite(value: bool | None) -> bool | None:
    return None if value is None else not value


def _condition(test: ast.expr, new: str) -> bool | None:
    if isinstance(test, ast.BoolOp):
        values = [_condition(value, new) for value in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _opposite(_condition(test.operand, new))
    try:
        text = ast.unparse(test)
    except RecursionError:
        return None
    if text == "__name__ == '__main__'":
        return True
    # The project's default holds where the caller says nothing.
    if re.fullmatch(
        r"os\.(?:environ\.get|getenv)\('\w*ARCH\w*'.*\) is None|'\w*ARCH\w*' not in os\.environ",
        text,
    ):
        return True
    begins = re.fullmatch(r"(.*)\.startswith\(\(?'(\d+(?:\.\d+)*)\.?',?\)?\)", text)
    if begins:
        return evaluate(f"{begins[1]} == {begins[2]}.*", new)
    return evaluate(text, new)


def _catches_import(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return (
        re.search(
            r"ImportError|ModuleNotFoundError|\bException\b|AttributeError",
            ast.unparse(handler.type),
        )
        is not None
    )


def _imports_any(statements: tuple[ast.stmt, ...], parents: set[str]) -> bool:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            if any(n == p or n.startswith(f"{p}.") for n in names for p in parents):
                return True
    return False
