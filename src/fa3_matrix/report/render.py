"""Renders the report's data as one self-contained HTML page and as Markdown. Both read nothing else."""

import re
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec

import jinja2
from markupsafe import escape

from fa3_matrix import _page
from fa3_matrix.report.inputs import Json

# A comment on GitHub holds no more.
_COMMENT_CHARACTERS = 65_536
_CUT = "\n\nCut here: the rest is in the report's page.\n"

# How many changed opcodes a row names before it only counts the rest.
_OPCODES_SHOWN = 4

_MARKS = {
    "failed": "✗",
    "not built": "○",
    "not run": "–",
    "built": "◐",
    "tested": "●",
    "passed": "✓",
    "measured": "✓",
    "stale": "↻",
    "does not apply": "·",
}


def html(report: Json) -> str:
    """The page: it loads nothing, and is readable on paper and in a dark window.

    Its one script sorts and filters tables, all of which are there without it.
    """
    template = _environment(autoescape=True).get_template("report.html.j2")
    return template.render(report, **_plots(report))


def markdown(report: Json) -> str:
    """The same in GitHub's Markdown, fit for a job summary or a comment: what is longer is cut at a line's end."""
    text = _environment(autoescape=False).get_template("report.md.j2").render(report)
    if len(text) <= _COMMENT_CHARACTERS:
        return text
    end = text.rindex("\n", 0, _COMMENT_CHARACTERS - len(_CUT))
    return text[:end] + _CUT


def _plots(report: Json) -> Json:
    """The page's plots by what the template calls them; `drawn` is false where nothing draws."""
    if find_spec("matplotlib") is None:
        return {"drawn": False, "plots": None, "rooflines": [], "trends": ([], [])}
    from fa3_matrix.report import gate_plots, time_plots

    gate, timings, trend = report["gate"], report["timings"], report["trend"]
    return {
        "drawn": True,
        "plots": gate and gate_plots.draw(gate),
        "rooflines": time_plots.rooflines(timings),
        "trends": time_plots.trends(trend) if trend else ([], []),
    }


@cache
def _environment(*, autoescape: bool) -> jinja2.Environment:
    environment = _page.environment("fa3_matrix.report", autoescape=autoescape)
    environment.filters |= {
        "mark": _MARKS.__getitem__,
        "seconds": seconds,
        "size": size,
        "percent": percent,
        "opcodes": opcodes,
        "short": short,
        "share_of": share_of,
        "arm": arm,
        "compared": compared,
        "figure": figure,
        "interval": interval,
        "change": change,
        "inline": inline,
    }
    return environment


def seconds(value: float | None) -> str:
    """`8.4 s`, `3 min 20 s`, or a dash for what was not measured."""
    if value is None:
        return "–"
    if value < 100:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def size(value: float | None) -> str:
    """Bytes in decimal units: `812 B`, `93 kB`, `1.84 GB`."""
    if value is None:
        return "–"
    if value < 1000:
        return f"{value:.0f} B"
    if value < 1e6:
        return f"{value / 1e3:.0f} kB"
    if value < 1e9:
        return f"{value / 1e6:.1f} MB"
    return f"{value / 1e9:.2f} GB"


def percent(new: float, old: float) -> str:
    """The change from `old` to `new`: `+3%`, `-12%`, or empty when they are equal."""
    if new == old:
        return ""
    if old == 0:
        return "new"
    change = 100 * (new - old) / old
    return f"{change:+.0f}%" if abs(change) >= 1 else f"{change:+.1f}%"


def opcodes(delta: dict[str, int]) -> str:
    """The largest changes of an opcode histogram: `MOV -14, HMMA +2`."""
    largest = sorted(delta.items(), key=lambda item: (-abs(item[1]), item[0]))
    shown = [f"{name} {count:+d}" for name, count in largest[:_OPCODES_SHOWN]]
    hidden = len(largest) - len(shown)
    return ", ".join([*shown, f"{hidden} more"] if hidden > 0 else shown)


def short(name: str) -> str:
    """A variant's name without what the table's heading already says: `bf16_d128_m128n64`."""
    return name.removeprefix("fa3_fwd_").partition("_")[2]


def share_of(value: float, limit: float) -> int:
    """How full a budget is, in percent, at most 100."""
    return min(100, round(100 * value / limit))


def arm(row: Json, name: str) -> str:
    """One arm of a comparison with peers: `812.3 µs`, of a build `812.3 µs (1.04x)`, or why it was not timed."""
    if name not in row["arms"]:
        return f"not run: {row['not_run'][name]}"
    text = f"{row['arms'][name]['median_us']:.1f} µs"
    return f"{text} ({row['ratio'][name]:.3f}x)" if name in row["ratio"] else text


def compared(figures: Json) -> str:
    """How many problems a mean is over: `24`, or `20 of 24` when no peer was timed on the others."""
    count = figures["compared"]
    return (
        f"{count} of {count + figures['not_compared']}" if figures["not_compared"] else str(count)
    )


def figure(value: float | None, digits: str) -> str:
    """A number in Python's format `digits`, or a dash for what there is none of."""
    return "–" if value is None else format(value, digits)


def interval(ends: list[float] | None) -> str:
    """Of a ratio: `1.0283 to 1.0360`, or a dash."""
    return "–" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"


def change(share: float) -> str:
    """By how much something is slower: `+1.2%`, `-0.4%`."""
    return f"{100 * share:+.1f}%"


def inline(text: str) -> str:
    """Text of others in a line of Markdown: a sign of it ends no table's cell, begins no tag and no link."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(str(escape(text)).split()))


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A plain aligned table for a terminal."""
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
