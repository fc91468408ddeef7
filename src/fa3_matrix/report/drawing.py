"""Plots as SVG to put into a page: one text for one document, no script, no font, nothing to load.

The page's colours stand in for those of text and lines, so that plots follow a dark window as the rest does.
Needs matplotlib, the extra `report`.
"""

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from markupsafe import Markup
from matplotlib import style as matplotlib_style
from matplotlib.figure import Figure

# Stand-ins that nothing else is drawn in, and the page's colours that take their place.
INK, MUTED, LINE, BAD, HALF = "#010203", "#010204", "#010205", "#010206", "#010207"
_VARIABLES = {INK: "ink", MUTED: "muted", LINE: "line", BAD: "bad", HALF: "half"}
# The width of a plot that has the page's, in pixels.
WIDE = 720

_STYLE = {
    # Text stays text: small, searchable, and in the page's font.
    "svg.fonttype": "none",
    "svg.hashsalt": "fa3-matrix",
    # A label is data: a dollar sign in it is one.
    "text.parse_math": False,
    "font.size": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.bbox": "tight",
    "savefig.pad_inches": 4 / 72,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": LINE,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 11,
}


@contextmanager
def style() -> Iterator[None]:
    """Around all drawing. Not the user's settings: two machines are to draw the same."""
    with (
        matplotlib_style.context(["default", _STYLE], after_reset=True),
        warnings.catch_warnings(),
    ):
        # A sign that matplotlib's font lacks is drawn by the reader's.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def figure(width: float, height: float) -> Figure:
    """An empty figure; sizes in the page's pixels, which are the SVG's points."""
    return Figure(figsize=(width / 72, height / 72))


def svg(plot: Figure, name: str, says: str) -> Markup:
    """The figure as an element; `name` keeps its ids from those of the page's other plots."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    plot.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', text)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", text)
    for stand_in, variable in _VARIABLES.items():
        text = text.replace(stand_in, f"var(--{variable})")
    label = Markup('<svg role="img" aria-label="{}"').format(says)
    return label + Markup(text.removeprefix("<svg"))


def gaps(values: Sequence[float | None]) -> list[float]:
    """Values to draw a line of: what is missing leaves a gap."""
    return [math.nan if value is None else value for value in values]
