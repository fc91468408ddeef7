"""GPU architectures as build files spell them: options of nvcc, and lists."""

import re
from collections.abc import Iterator
from dataclasses import replace

from fa3_matrix.migrate.difference import Remedy
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.rules import State
from fa3_matrix.migrate.scan.source import CONSTRUCT_LIMIT, Source

# PyTorch's names of architectures, as TORCH_CUDA_ARCH_LIST takes them.
TORCH_NAMES = {
    "maxwell": ("50", "52"),
    "maxwell+tegra": ("53",),
    "pascal": ("60", "61"),
    "volta": ("70",),
    "volta+tegra": ("72",),
}

_ARCH = r"(?:sm|compute|lto)_\d+[af]?"
# -gencode=arch=compute_70,code=sm_70  --generate-code arch=compute_70,code=[sm_70,compute_70]  -arch=sm_70,sm_80
_PAIR = (
    rf"arch\s*=\s*\\?[\"']?{_ARCH}\\?[\"']?\s*,\s*\\?[\"']?"
    rf"code\s*=\s*\\?[\"']?(?:\[\s*)?{_ARCH}(?:\s*,\s*{_ARCH})*(?:\s*\])?"
)
_OPTION = re.compile(
    rf"""(?P<gencode>(?:--?gencode|--generate-code)(?:\s*=\s*|["',;\s]+){_PAIR})
      | (?P<pair>(?<![\w-]){_PAIR})
      | (?P<single>(?:--gpu-architecture|--gpu-code|-arch|-code)(?:\s*=\s*|["',;\s]+)["']?{_ARCH}(?:\s*,\s*{_ARCH})*)
      | (?P<bare>(?<![\w.]){_ARCH}(?!\w))""",
    re.VERBOSE,
)
_REMEDY = Remedy(
    text="Name architectures that the new toolkit knows, 75 and later; older GPUs need the older toolkit."
)


def removed(source: Source, number: str) -> str | None:
    """``sm_70`` if the new toolkit has dropped ``number`` ("70"), else None."""
    name = f"sm_{number.rstrip('af')}"
    return name if source.change("ARCH-REMOVED", name) else None


def finding(
    source: Source,
    span: tuple[int, int],
    number: str,
    state: State,
    *,
    confidence: str = "high",
    edits: tuple[Edit, ...] = (),
) -> Finding | None:
    """That the architecture at ``span`` is gone, or None if it is not."""
    name = removed(source, number)
    if name is None:
        return None
    return source.finding(
        "ARCH-REMOVED",
        span,
        name,
        f"nvcc {source.difference.new} has no architecture {name}.",
        change=source.change("ARCH-REMOVED", name),
        remedy=_REMEDY,
        state=state,
        confidence=confidence,
        edits=edits,
    )


def options(
    source: Source, start: int, end: int, state: State, *, bare: bool = False
) -> Iterator[Finding]:
    """In the options of nvcc between two offsets; ``bare``: in names that stand alone, too.

    A ``-gencode`` is left out by ``--fix`` if another one stays.
    """
    text = source.text[start:end]
    matches = [m for m in _OPTION.finditer(text) if bare or not m["bare"]]
    kept = any(m["gencode"] and _gone(source, m[0]) is None for m in matches)
    for match in matches:
        number = _gone(source, match[0])
        if number is None:
            continue
        span = (start + match.start(), start + match.end())
        edits: tuple[Edit, ...] = ()
        if kept and match["gencode"]:
            edits = _left_out(source, span)
        found = finding(
            source,
            span,
            number,
            state,
            confidence="medium" if match["bare"] else "high",
            edits=edits,
        )
        if found:
            yield found


def _gone(source: Source, option: str) -> str | None:
    numbers = re.findall(r"(?:sm|compute|lto)_(\d+)", option)
    # code=sm_75 from arch=compute_70 is refused as well: every part must be known.
    return next((number for number in numbers if removed(source, number)), None)


def _left_out(source: Source, span: tuple[int, int]) -> tuple[Edit, ...]:
    """Delete an option of one line, with its quotes, the blanks before it and a comma after it."""
    start, end = span
    text = source.text
    if "\n" in text[start:end]:
        return ()
    if start and end < len(text) and text[start - 1] in "\"'" and text[end] == text[start - 1]:
        start, end = start - 1, end + 1
        if end < len(text) and text[end] == ",":
            end += 1
    elif start and text[start - 1] in "\"'":
        if end >= len(text) or text[end] not in " \t":
            return ()
        # The first option of a longer string goes with the blanks behind it.
        while text[end : end + 1] in (" ", "\t"):
            end += 1
    while start and text[start - 1] in " \t" and not _leads(source, start):
        start -= 1
    return (source.edit(start, end, ""),)


def _leads(source: Source, offset: int) -> bool:
    """Whether only blanks stand before ``offset`` on its line: indentation stays."""
    line, column = source.position(offset)
    return not source.text[source.starts[line - 1] :][: column - 1].strip()


_ENTRY = re.compile(
    r"(?<![\w$.])(?:(?P<number>\d+(?:\.\d+)?)[af]?(?:-(?:real|virtual))?(?:\+PTX)?|[A-Za-z]+(?:\+Tegra)?)(?![\w.])"
)


def listed(
    source: Source, start: int, end: int, state: State, *, confidence: str = "high"
) -> Iterator[Finding]:
    """In a list of numbers or names: ``60;70-real;80``, ``6.0 7.0+PTX``, ``Volta;Ampere``.

    ``--fix`` takes what is gone out of the list if something remains.
    """
    computed = "$" in source.text[start:end] or "{" in source.text[start:end]
    entries = list(_ENTRY.finditer(source.text, start, end))
    gone = [_entry_gone(source, entry) for entry in entries]
    first_kept = next((i for i, number in enumerate(gone) if number is None), None)
    for index, (entry, number) in enumerate(zip(entries, gone, strict=True)):
        if number is None:
            continue
        edits: tuple[Edit, ...] = ()
        if first_kept is not None and not computed:
            # With the separator before it, or, ahead of everything that stays, with the one after it.
            cut = (
                (entry.start(), entries[index + 1].start())
                if index < first_kept
                else (entries[index - 1].end(), entry.end())
            )
            if not source.is_one_line(*cut) and not re.search("[;,]", source.text[slice(*cut)]):
                cut = entry.span()
            if source.is_one_line(*cut):
                edits = (source.edit(*cut, ""),)
        found = finding(source, entry.span(), number, state, confidence=confidence, edits=edits)
        if found:
            yield replace(found, construct=_construct(source, start, end))


def _construct(source: Source, start: int, end: int) -> str:
    return " ".join(source.text[start:end].strip("\"'").split())[:CONSTRUCT_LIMIT]


def _entry_gone(source: Source, entry: re.Match[str]) -> str | None:
    if entry["number"]:
        number = entry["number"].replace(".", "")
        return number if removed(source, number) else None
    numbers = TORCH_NAMES.get(entry[0].lower(), ())
    return next((number for number in numbers if removed(source, number)), None)
