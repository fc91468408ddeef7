"""Plots of times: how near to the GPU's ceilings each problem comes, and what became of the suites from run to run."""

import math
from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from fa3_matrix.report import drawing
from fa3_matrix.report.drawing import BAD, HALF, INK, LINE, MUTED, figure, svg
from fa3_matrix.report.inputs import Json

_ROOFLINE = (640, 380)
_PANEL = (220, 100)
_ROW = (180, 44)
# Of suites, in the order met; more than these share the last.
_SIGNS = "os^Dv*"
# Of the GEMM: problems below it are too small to fill the GPU, and would squeeze all others together.
_LEAST_SHARE = 0.001


def rooflines(timings: Sequence[Json]) -> list[Markup]:
    """One for each of `fa3_matrix.report.timings.assemble`'s entries, empty where it has none."""
    with drawing.style():
        return [
            Markup() if entry["no_roofline"] else _roofline(entry, f"roofline{number}")
            for number, entry in enumerate(timings)
        ]


def trends(trend: Json) -> tuple[list[Markup], list[Markup]]:
    """A panel for each of the suites, and of the movers, that `fa3_matrix.report.trend.assemble` returned."""
    with drawing.style():
        return (
            _suites(trend["suites"]),
            [_mover(mover, f"mover{number}") for number, mover in enumerate(trend["movers"])],
        )


def _roofline(entry: Json, name: str) -> Markup:
    plot = figure(*_ROOFLINE)
    axes = plot.add_axes((0, 0, 1, 1), xscale="log", yscale="log")
    known = [row for row in entry["rows"] if row["intensity"] is not None]
    least = _LEAST_SHARE * entry["ceilings"]["gemm_tflops"]
    rows = [row for row in known if max(row["tflops"].values()) >= least]
    arms = [arm["name"] for arm in entry["arms"]]
    suites = list(dict.fromkeys(row["suite"] for row in rows))
    signs = {suite: _SIGNS[min(i, len(_SIGNS) - 1)] for i, suite in enumerate(suites)}
    for row in rows:
        heights = [row["tflops"][arm] for arm in arms if arm in row["tflops"]]
        axes.plot([row["intensity"]] * len(heights), heights, color=MUTED, linewidth=0.9, zorder=2)
        for arm, height in row["tflops"].items():
            newest = arm == arms[-1]
            axes.plot(
                *([row["intensity"]], [height], signs[row["suite"]]),
                markerfacecolor=HALF if newest else "none",
                markeredgecolor=HALF if newest else INK,
                markersize=5,
                zorder=4 if newest else 3,
            )
    _ceilings(axes, entry["ceilings"], [row["intensity"] for row in rows])
    if below := len(known) - len(rows):
        text = f"below {least:.2g} TFLOP/s, not drawn: {below}"
        axes.text(0.02, 0.02, text, color=MUTED, transform=axes.transAxes)
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(NullFormatter())
    axes.grid(linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set(xlabel="arithmetic intensity, FLOP a byte", ylabel="TFLOP/s")
    keys = [_key(signs[suite], MUTED, "none", suite) for suite in suites]
    for arm in entry["arms"]:
        newest = arm["name"] == arms[-1]
        colours = (HALF, HALF) if newest else (INK, "none")
        keys.append(_key("o", *colours, f"CUDA {arm['toolkit']}"))
    axes.legend(handles=keys, loc="lower right", ncols=2)
    return svg(plot, name, f"TFLOP/s against arithmetic intensity: {entry['title']}")


def _ceilings(axes: Axes, ceilings: Json, intensities: Sequence[float]) -> None:
    """What a GEMM and a copy reach: no problem can be above the lower of them, unless caches served it."""
    gemm, copy = ceilings["gemm_tflops"], ceilings["copy_gb_per_s"] / 1000
    ridge = gemm / copy
    low, high = min([*intensities, ridge]) / 1.5, max([*intensities, ridge]) * 1.5
    axes.plot([low, ridge, high], [low * copy, gemm, gemm], color=BAD, linewidth=1.3, zorder=1)
    axes.set_xlim(low, high)
    axes.text(high, gemm * 1.05, f"GEMM {gemm:.0f} TFLOP/s", color=BAD, ha="right", va="bottom")
    middle = math.sqrt(low * ridge)
    axes.annotate(
        f"copy {1000 * copy:.0f} GB/s",
        (middle, middle * copy),
        (-6, 6),
        textcoords="offset points",
        color=BAD,
        ha="right",
    )


def _key(sign: str, edge: str, face: str, label: str) -> Line2D:
    return Line2D([], [], linestyle="", marker=sign, color=edge, markerfacecolor=face, label=label)


def _suites(suites: Sequence[Json]) -> list[Markup]:
    """On one scale, so that what has moved most looks so."""
    changes = [[100 * point["change"] for point in suite["points"]] for suite in suites]
    ends = [end for each in changes for end in (min(each), max(each))]
    drawn = []
    for number, (suite, values) in enumerate(zip(suites, changes, strict=True)):
        plot, axes = _line(_PANEL, suite["points"], values, usual=0)
        room = 0.1 * (max(ends) - min(ends)) or 1
        axes.set_ylim(min(ends) - room, max(ends) + room)
        drawn.append(svg(plot, f"suite{number}", f"From run to run: {_title(suite)}"))
    return drawn


def _mover(mover: Json, name: str) -> Markup:
    """Small enough for a row of a table, which has the figures."""
    times = [point["us"] for point in mover["points"]]
    plot, _ = _line(_ROW, mover["points"], times, usual=mover["previous_us"])
    return svg(plot, name, f"From run to run: {_title(mover)}: {mover['name']}")


def _title(entry: Json) -> str:
    return ", ".join(filter(None, (entry["suite"], entry["cell"])))


def _line(
    size: tuple[int, int], points: Sequence[Json], values: Sequence[float], *, usual: float
) -> tuple[Figure, Axes]:
    plot = figure(*size)
    axes = plot.add_axes((0, 0, 1, 1))
    axes.plot(values, color=HALF, linewidth=1.2, marker="o", markersize=3)
    axes.axhline(usual, color=LINE, linewidth=1, zorder=1)
    ends = (0, len(points) - 1)
    axes.set_xticks(ends, [points[end]["started"][:10] for end in ends])
    axes.yaxis.set_major_locator(MaxNLocator(3))
    return plot, axes
