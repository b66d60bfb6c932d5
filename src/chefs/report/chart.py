"""Small charts as inline SVG, whose colours come from the page, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from chefs.dag import FloatArray
from chefs.report.markup import Markup, joined, tag
from chefs.report.words import number

N_SERIES = 6  # colours that the style knows
MOST_BINS = 30


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers between two ends, about so many.

    >>> ticks(0.0, 1.0), ticks(-3.0, 12.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0])
    """
    rough = (high - low) / about
    if not (math.isfinite(rough) and rough > 0):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= rough * 0.75)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def padded(*values: ArrayLike, pad: float = 0.04) -> tuple[float, float]:
    """The range of all values that are numbers, and a little more."""
    together = np.concatenate([np.ravel(np.asarray(v, dtype=np.float64)) for v in values])
    together = together[np.isfinite(together)]
    low, high = (float(together.min()), float(together.max())) if together.size else (0.0, 1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = 0.5 * abs(low) or 1.0
        return low - room, high + room
    return low - pad * (high - low), high + pad * (high - low)


def bins(values: FloatArray) -> FloatArray:
    """Edges of the bins of a histogram: one for each whole number where these are few, else equally wide."""
    values = values[np.isfinite(values)]
    if values.size and (values == np.round(values)).all() and np.ptp(values) < MOST_BINS:
        return np.arange(values.min() - 0.5, values.max() + 1)
    low, high = padded(values, pad=0.0)
    return np.linspace(low, high, int(np.clip(math.sqrt(max(values.size, 1)), 8, MOST_BINS)) + 1)


@dataclass
class Panel:
    """A rectangle with axes; what is put into it is in the units of the data.

    >>> panel = Panel((0, 1), (0, 2), width=100, height=50)
    >>> panel.line([0, 1], [0, 2], "s0")
    >>> panel.svg("a line").startswith("<svg")
    True
    """

    x: tuple[float, float]
    y: tuple[float, float]
    width: float = 300
    height: float = 190
    x_label: str = ""
    y_label: str = ""
    x_ticks: Sequence[float] | None = None
    y_ticks: Sequence[float] | None = None
    left: float | None = None  # margin for the numbers of the y axis; None for as much as they need
    x_text: Callable[[float], str] = number
    y_text: Callable[[float], str] = number
    marks: list[Markup] = field(default_factory=list)

    @property
    def _inner(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the area inside the axes."""
        longest = max((len(self.y_text(tick)) for tick in self._ticks_y), default=0)
        left = 6.4 * longest + 10 if longest else 6
        left = (left if self.left is None else self.left) + (16 if self.y_label else 0)
        bottom = (18 if self._ticks_x else 6) + (16 if self.x_label else 0)
        return left, 8, self.width - 10, self.height - bottom

    @property
    def _ticks_x(self) -> Sequence[float]:
        return ticks(*self.x, max(2, int(self.width / 75))) if self.x_ticks is None else self.x_ticks

    @property
    def _ticks_y(self) -> Sequence[float]:
        return ticks(*self.y, max(2, int(self.height / 45))) if self.y_ticks is None else self.y_ticks

    def places(self, x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Where points of the data are on paper."""
        left, top, right, bottom = self._inner
        across = (np.asarray(x, dtype=np.float64) - self.x[0]) / (self.x[1] - self.x[0])
        up = (np.asarray(y, dtype=np.float64) - self.y[0]) / (self.y[1] - self.y[0])
        return left + (right - left) * across, bottom - (bottom - top) * up

    def dots(self, x: ArrayLike, y: ArrayLike, class_: str) -> None:
        """Points; those outside the axes, or with a missing number, are left out."""
        px, py = self.places(x, y)
        left, top, right, bottom = self._inner
        inside = (px >= left) & (px <= right) & (py >= top) & (py <= bottom)
        path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(px[inside], py[inside], strict=True))
        self.marks.append(tag("path", d=path, class_=f"dots {class_}"))

    def line(self, x: ArrayLike, y: ArrayLike, class_: str) -> None:
        """A line through points, cut at the lower and upper axis."""
        px, py = self.places(x, y)
        _, top, _, bottom = self._inner
        points = [f"{a:.1f} {b:.1f}" for a, b in zip(px, np.clip(py, top, bottom), strict=True)]
        self.marks.append(tag("path", d=f"M{'L'.join(points)}", class_=f"line {class_}"))

    def bars(
        self, edges: ArrayLike, heights: ArrayLike, class_: str, titles: Sequence[str] = (), base: float = 0.0
    ) -> None:
        """Bars between the edges of bins, standing on a base, with a word about each where there is one."""
        heights = np.asarray(heights, dtype=np.float64)
        px, py = self.places(edges, np.full(heights.size + 1, base))
        _, tops = self.places(np.zeros_like(heights), base + heights)
        shapes = []
        for j, top in enumerate(tops):
            gap = min(1.0, 0.1 * (px[j + 1] - px[j]))
            shapes.append(f"M{px[j] + gap:.1f} {py[j]:.1f}V{top:.1f}H{px[j + 1] - gap:.1f}V{py[j]:.1f}Z")
        if titles:
            named = zip(shapes, titles, strict=True)
            self.marks.extend(tag("path", tag("title", text), d=d, class_=f"bars {class_}") for d, text in named)
        else:
            self.marks.append(tag("path", d="".join(shapes), class_=f"bars {class_}"))

    def steps(self, edges: ArrayLike, heights: ArrayLike, class_: str) -> None:
        """The outline of bars."""
        edges, heights = np.asarray(edges), np.asarray(heights)
        self.line(np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(heights, 2), [0.0]]), class_)

    def text(self, x: float, y: float, words: str) -> None:
        """Words in the middle of a place."""
        (px,), (py,) = self.places([x], [y])
        self.marks.append(tag("text", words, x=f"{px:.1f}", y=f"{py:.1f}", class_="middle"))

    def title(self, words: str) -> None:
        """Words at the top of the area inside the axes, cut short where they are too long for it."""
        left, top, right, _ = self._inner
        most = max(4, int((right - left) / 7))
        short = words if len(words) <= most else words[: most - 1] + "…"
        self.marks.append(tag("text", short, x=f"{(left + right) / 2:g}", y=f"{top + 4:g}", class_="middle title"))

    def group(self, dx: float = 0.0, dy: float = 0.0) -> Markup:
        """The panel as a part of a larger picture."""
        return tag("g", *self._axes(), *self.marks, transform=f"translate({dx:g} {dy:g})")

    def svg(self, description: str) -> Markup:
        """The panel as a picture; what it shows is said in words too."""
        return picture(self.width, self.height, description, self.group())

    def _axes(self) -> list[Markup]:
        left, top, right, bottom = self._inner
        parts = [tag("path", d=f"M{left:g} {bottom:g}H{right:g}", class_="axis")] if self._ticks_x else []
        at_x, _ = self.places(self._ticks_x, np.zeros(len(self._ticks_x)))
        for value, px in zip(self._ticks_x, at_x, strict=True):
            parts.append(tag("path", d=f"M{px:.1f} {bottom:g}v3", class_="axis"))
            parts.append(tag("text", self.x_text(value), x=f"{px:.1f}", y=f"{bottom + 14:g}", class_="middle"))
        _, at_y = self.places(np.zeros(len(self._ticks_y)), self._ticks_y)
        for value, py in zip(self._ticks_y, at_y, strict=True):
            parts.append(tag("path", d=f"M{left:g} {py:.1f}H{right:g}", class_="rule"))
            parts.append(tag("text", self.y_text(value), x=f"{left - 5:g}", y=f"{py + 3.5:.1f}", class_="end"))
        if self.x_label:
            parts.append(tag("text", self.x_label, x=f"{(left + right) / 2:g}", y=self.height - 3, class_="middle"))
        if self.y_label:
            turned = f"translate(11 {(top + bottom) / 2:g}) rotate(-90)"
            parts.append(tag("text", self.y_label, transform=turned, class_="middle"))
        return parts


def picture(width: float, height: float, description: str, *parts: Markup) -> Markup:
    """An SVG for a page: as large as given where there is room, with a description for those who cannot see it."""
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    return tag("svg", joined(*parts), class_="chart", role="img", aria_label=description, **size)


def matrix(panels: Sequence[Sequence[Panel | None]], description: str) -> Markup:
    """Panels of one size in rows and columns."""
    first = next(panel for row in panels for panel in row if panel is not None)
    w, h = first.width, first.height
    parts = [
        panel.group(column * w, row * h)
        for row, line in enumerate(panels)
        for column, panel in enumerate(line)
        if panel is not None
    ]
    return picture(w * len(panels[0]), h * len(panels), description, *parts)
