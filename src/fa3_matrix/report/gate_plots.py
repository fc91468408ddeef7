"""The gate's plots: of heat maps, pairs, controls, and the clock and power of a run."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Patch, Rectangle

from fa3_matrix.report import drawing
from fa3_matrix.report.drawing import BAD, HALF, INK, LINE, MUTED, WIDE, figure, gaps, svg
from fa3_matrix.report.inputs import Json

# A slowdown of this share, or more, has the deepest colour.
CLIP = 0.05

# Of cells, whose own colour does not change with the window.
_DARK, _LIGHT, _NO_PAIR = "#16191d", "#ffffff", "#b9bfc6"

# A heat map's cell, in pixels.
_CELL_WIDTH, _CELL_HEIGHT = 47, 24
_PANEL = (300, 190)
_MOST_CONTROLS = 40


@dataclass(frozen=True)
class Plots:
    """What there is to draw of a run; empty where there is nothing."""

    key: Markup
    """To the heat maps' colours and signs."""
    heat_maps: list[Markup]
    """One for each of the data's."""
    pairs: list[Markup]
    """One for each flagged cell of the data's."""
    controls: Markup
    trace: Markup


def draw(gate: Json) -> Plots:
    """Draw what `fa3_matrix.report.gate_page.assemble` returned."""
    with drawing.style():
        return Plots(
            key=_key() if gate["heat_maps"] else Markup(),
            heat_maps=[
                _heat_map(each, gate["cells"], f"map{number}")
                for number, each in enumerate(gate["heat_maps"])
            ],
            pairs=[_pairs(cell, f"pairs{number}") for number, cell in enumerate(gate["pairs"])],
            controls=_controls(gate["controls"]),
            trace=_trace(gate["trace"]),
        )


def _colours() -> tuple[Any, Normalize]:
    """Of log ratios: red is slower, blue faster, near white in the middle."""
    deepest = math.log1p(CLIP)
    return matplotlib.colormaps["RdBu_r"], Normalize(-deepest, deepest)


def _key() -> Markup:
    plot = figure(WIDE, 16)
    colours, norm = _colours()
    axes = plot.add_axes((0, 0, 0.35, 1))
    steps = 41
    for step in range(steps):
        share = (step / (steps - 1) * 2 - 1) * CLIP
        colour = colours(norm(math.log1p(share)))
        axes.add_patch(Rectangle((step, 0), 1, 1, facecolor=colour, edgecolor=colour))
    axes.set(xlim=(0, steps), ylim=(0, 1), yticks=[])
    shares = (-CLIP, -CLIP / 2, 0, CLIP / 2, CLIP)
    places = [(share / CLIP + 1) / 2 * (steps - 1) + 0.5 for share in shares]
    names = [f"{100 * share:+.3g}%" if share else "0" for share in shares]
    names = [f"{names[0]} or less", *names[1:-1], f"{names[-1]} or more"]
    axes.set_xticks(places, names)
    plot.legend(
        handles=[
            Patch(facecolor=_LIGHT, edgecolor=_DARK, hatch="////", label="interval holds 1"),
            Patch(facecolor="none", edgecolor=INK, linewidth=2, label="failed"),
            Patch(facecolor=_NO_PAIR, label="no pair"),
        ],
        loc="center left",
        bbox_to_anchor=(0.40, 0.5),
        ncols=3,
    )
    return svg(plot, "key", "Key: red is slower, blue faster; hatched where the interval holds 1")


def _heat_map(heat_map: Json, cells: list[Json], name: str) -> Markup:
    rows, columns = heat_map["rows"], heat_map["columns"]
    plot = figure(_CELL_WIDTH * len(columns), _CELL_HEIGHT * len(rows))
    axes = plot.add_axes((0, 0, 1, 1))
    for row, column, index in heat_map["places"]:
        _tile(axes, row, column, cells[index])
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.set_xticks([column + 0.5 for column in range(len(columns))], columns)
    axes.set_yticks([row + 0.5 for row in range(len(rows))], rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelcolor=INK)
    axes.spines[:].set_visible(False)
    return svg(plot, name, f"Percent by which head is slower: {heat_map['title']}")


def _tile(axes: Axes, row: int, column: int, cell: Json) -> None:
    """One cell: colour for the effect, its number for who can't see it, hatching where it may be none."""
    if cell["ratio"] is None:
        pair = cell["verdict"] != "no-pair"
        face, text, unsure = (_LIGHT if pair else _NO_PAIR), ("–" if pair else "none"), False
    else:
        colours, norm = _colours()
        face = colours(norm(math.log(cell["ratio"])))
        text = format(_percent(cell["ratio"]), "+z.1f")
        unsure = not _apart(cell["interval"])
    ink = _DARK if _luminance(face) > 0.35 else _LIGHT
    box = (column + 0.03, row + 0.06), 0.94, 0.88
    hatch, lines = ("////", "#8d949c") if unsure else (None, "none")
    axes.add_patch(Rectangle(*box, facecolor=face, linewidth=0, hatch=hatch, edgecolor=lines))
    failed = cell["verdict"] == "fail"
    if failed:
        axes.add_patch(Rectangle(*box, facecolor="none", edgecolor=INK, linewidth=2))
    # A plate keeps the number apart from the hatching.
    plate = {"facecolor": face, "edgecolor": "none", "pad": 1.5} if unsure else None
    axes.text(
        column + 0.5,
        row + 0.53,
        text,
        color=ink,
        bbox=plate,
        ha="center",
        va="center_baseline",
        weight="bold" if failed else "normal",
    )


def _apart(interval: list[float] | None) -> bool:
    """Whether the interval excludes 1; one that there is none of excludes nothing."""
    return interval is not None and not interval[0] <= 1 <= interval[1]


def _luminance(colour: Any) -> float:
    """Relative luminance, as contrast is defined by (WCAG 2)."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in matplotlib.colors.to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _pairs(cell: Json, name: str) -> Markup:
    """Of each trial the share of pairs at or below a slowdown; medians, which are what is tested, as a row of ticks."""
    plot = figure(*_PANEL)
    axes = plot.add_axes((0, 0, 1, 1))
    medians = []
    for trial in cell["trials"]:
        percents = sorted(map(_percent, trial))
        medians.append(median(percents))
        axes.ecdf(percents, color=HALF, linewidth=0.9, alpha=0.75)
    axes.plot(medians, [-0.07] * len(medians), "|", color=INK, markersize=8, clip_on=False)
    axes.axvline(0, color=MUTED, linewidth=1)
    axes.axvline(100 * cell["margin"], color=BAD, linewidth=1.2, linestyle="--")
    if cell["interval"] is not None:
        axes.axvspan(*map(_percent, cell["interval"]), color=MUTED, alpha=0.2, linewidth=0)
    axes.set(ylim=(-0.13, 1.02), yticks=[0, 0.5, 1], xlim=_most_of(cell))
    axes.set_xlabel("head slower by, %")
    return svg(plot, name, f"Ratios of pairs by trial: {cell['label']}")


def _percent(ratio: float) -> float:
    return 100 * (ratio - 1)


def _most_of(cell: Json) -> tuple[float, float]:
    """All but the outermost 2% of pairs, so that one spike does not flatten the rest; the marks as well."""
    pooled = sorted(_percent(ratio) for trial in cell["trials"] for ratio in trial)
    cut = len(pooled) // 50
    shown = [pooled[cut], pooled[-1 - cut], 0.0, 100 * cell["margin"]]
    low, high = min(shown), max(shown)
    room = 0.05 * (high - low)
    return low - room, high + room


def _controls(controls: list[Json]) -> Markup:
    """The A/A panel: each control's interval in each stage, around nothing."""
    estimated = [control for control in controls if control["interval"] is not None]
    if not estimated:
        return Markup()
    estimated.sort(key=lambda c: (not c["rejected"], -abs(math.log(c["ratio"]))))
    rows: dict[str, list[Json]] = {}
    for control in estimated:
        what = ", ".join(control[key] for key in ("control", "suite", "mode"))
        name = f"{control['label']} ({what})"
        rows.setdefault(name, []).append(control)
    shown = list(rows.items())[:_MOST_CONTROLS]
    plot = figure(_PANEL[0], 42 * len(shown) + 10)
    axes = plot.add_axes((0, 0, 1, 1))
    for row, (name, stages) in enumerate(shown):
        # Above its intervals, not beside them: names are long and windows may be narrow.
        axes.annotate(name, (0, row), xycoords=("axes fraction", "data"), va="center")
        for control in stages:
            _interval(axes, row + (0.58 if control["stage"] == "confirm" else 0.35), control)
        axes.vlines(0, row + 0.22, row + 0.71, color=MUTED, linewidth=1)
    axes.set(yticks=[], ylim=(len(shown) - 0.2, -0.4))
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("difference, % (circle: screen, square: confirm; cross: rejected)")
    return svg(plot, "controls", "Controls: intervals of cells where nothing can differ")


def _interval(axes: Axes, y: float, control: Json) -> None:
    colour = BAD if control["rejected"] else HALF
    sign = "X" if control["rejected"] else {"screen": "o", "confirm": "s"}[control["stage"]]
    axes.plot(list(map(_percent, control["interval"])), [y, y], color=colour, linewidth=1.6)
    axes.plot([_percent(control["ratio"])], [y], sign, color=colour, markersize=5)


def _trace(trace: Json) -> Markup:
    """SM clock and power over the run. What was not readable leaves a gap."""
    panels = [
        panel for panel in _panels(trace) if any(value is not None for value in panel[1][0][1])
    ]
    if not panels:
        return Markup()
    plot = figure(WIDE, 150 * len(panels))
    grid = plot.subplots(len(panels), sharex=True, squeeze=False)
    x = range(len(trace["dropped"]))
    for axes, (label, lines) in zip(grid[:, 0], panels, strict=True):
        for name, values, colour, dashes in lines:
            axes.plot(x, gaps(values), color=colour, linewidth=1.1, linestyle=dashes, label=name)
        axes.set_ylabel(label)
        axes.grid(axis="y", linewidth=0.6)
        axes.set_xlim(-0.5, len(x) - 0.5)
        if len(lines) > 1:
            axes.legend(loc="upper right", bbox_to_anchor=(1, -0.02), ncols=2, borderaxespad=0)
    clock = grid[0, 0]
    if panels[0][0].startswith("SM"):
        clock.fill_between(
            x, gaps(trace["low_mhz"]), gaps(trace["high_mhz"]), color=MUTED, alpha=0.25, lw=0
        )
    dropped = [place for place, number in enumerate(trace["dropped"]) if number]
    for place in dropped:
        clock.axvline(place, ymax=0.06, color=BAD, linewidth=1.5)
    _part_trials(grid[:, 0].tolist(), trace["trials"])
    grid[-1, 0].set_xlabel("cells in the order timed")
    return svg(plot, "trace", "SM clock and power over the run")


def _panels(trace: Json) -> Iterator[tuple[str, list[tuple[str, list[float | None], str, str]]]]:
    yield (
        "SM clock, MHz",
        [("base", trace["base_mhz"], INK, "-"), ("head", trace["head_mhz"], HALF, "--")],
    )
    yield "power, W", [("power", trace["watts"], INK, "-")]


def _part_trials(grid: Sequence[Axes], trials: list[Json]) -> None:
    """A line between trials, and above them the stages' names."""
    begin, stage = -0.5, None
    for trial in trials:
        for axes in grid:
            axes.axvline(begin, color=LINE, linewidth=0.8)
        if trial["stage"] != stage:
            stage = trial["stage"]
            grid[0].annotate(
                f"{stage}:",
                (begin, 1.02),
                xycoords=("data", "axes fraction"),
                va="bottom",
                color=MUTED,
            )
        begin += trial["cells"]
