"""Makes drawings that stand by themselves in a page, all of one style.

It does not know what is drawn.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# matplotlib leaves parts of its signatures open.

import io
import re
from collections.abc import Callable
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

INK, MUTED, LINE = "#1d2433", "#6b7485", "#e3e7ee"
STYLE: Any = {
    "font.size": 9,
    "axes.edgecolor": "#b6bdc9",
    "axes.labelcolor": MUTED,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    "svg.hashsalt": "regard",
    "figure.constrained_layout.use": True,
}
WIDTH = 10.0


def plain_log(axes: Axes, which: str) -> None:
    """Label a logarithmic axis with plain numbers, the more of them the less it spans."""
    axis = axes.xaxis if which == "x" else axes.yaxis

    def every(value: float, _: int | None) -> str:
        return f"{value:g}"

    def some(value: float, _: int | None) -> str:
        return f"{value:g}" if f"{value:e}"[0] in "25" else ""

    axis.set_major_formatter(FuncFormatter(every))
    low, high = axis.get_view_interval()
    # Within little more than a decade the minor ticks carry the reading.
    if high / max(low, 1e-9) < 30:
        axis.set_minor_formatter(FuncFormatter(some))
    else:
        axis.set_minor_formatter(NullFormatter())


def svg(draw: Callable[[Figure], None], *, height: float) -> str:
    """Have a figure of that height in inches drawn, and return it as an element of a page."""
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), dpi=150)
        draw(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    # What names other places: nothing in a page need, and none of it is kept.
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    return re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 role="img">', text, count=1)
