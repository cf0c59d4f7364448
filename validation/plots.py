"""Plots of measured against simulated times, written as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

import attrs

_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")
_SIDE, _LEFT, _TOP, _LEGEND = 480.0, 60.0, 40.0, 230.0
_MARGIN = 1.15


@attrs.frozen
class Mark:
    """A measured and a simulated time in seconds; filled if it was held out."""

    measured: float
    simulated: float
    filled: bool


def scatter(title: str, series: Mapping[str, Sequence[Mark]]) -> str:
    """Logarithmic axes, the diagonal, and lines 10 % beside it. Filled marks were held out of the fit, empty ones were fitted."""
    times = [time for marks in series.values() for mark in marks for time in (mark.measured, mark.simulated)]
    axes = _Axes(min(times) / _MARGIN, max(times) * _MARGIN)
    width, height = _LEFT + _SIDE + _LEGEND, _TOP + _SIDE + 50
    size = f'width="{width:.0f}" height="{height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">',
        f'<rect {size} fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
        *axes.frame(),
    ]
    for place, (name, marks) in enumerate(series.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        parts += (axes.mark(mark, colour) for mark in marks)
        y = _TOP + 14 + 18 * place
        parts.append(f'<circle cx="{_LEFT + _SIDE + 16}" cy="{y - 4:.1f}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + _SIDE + 26}" y="{y:.1f}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


@attrs.frozen
class _Axes:
    """Both axes, from the least to the most seconds."""

    least: float
    most: float

    def _place(self, value: float) -> float:
        return _SIDE * math.log(value / self.least) / math.log(self.most / self.least)

    def x(self, value: float) -> float:
        return _LEFT + self._place(value)

    def y(self, value: float) -> float:
        return _TOP + _SIDE - self._place(value)

    def mark(self, mark: Mark, colour: str) -> str:
        fill = colour if mark.filled else "none"
        return f'<circle cx="{self.x(mark.measured):.1f}" cy="{self.y(mark.simulated):.1f}" r="3.5" fill="{fill}" stroke="{colour}"/>'

    def frame(self) -> Iterator[str]:
        yield f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="black"/>'
        for factor, dash in ((1.0, ""), (1.1, ' stroke-dasharray="4 4"'), (1 / 1.1, ' stroke-dasharray="4 4"')):
            low, high = max(self.least, self.least / factor), min(self.most, self.most / factor)
            ends = f'x1="{self.x(low):.1f}" y1="{self.y(low * factor):.1f}" x2="{self.x(high):.1f}" y2="{self.y(high * factor):.1f}"'
            yield f'<line {ends} stroke="#888"{dash}/>'
        for value in self._ticks():
            yield f'<text x="{self.x(value):.1f}" y="{_TOP + _SIDE + 16}" text-anchor="middle">{value:g}</text>'
            yield f'<text x="{_LEFT - 6}" y="{self.y(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
            yield f'<line x1="{self.x(value):.1f}" y1="{_TOP + _SIDE}" x2="{self.x(value):.1f}" y2="{_TOP + _SIDE - 5}" stroke="black"/>'
            yield f'<line x1="{_LEFT}" y1="{self.y(value):.1f}" x2="{_LEFT + 5}" y2="{self.y(value):.1f}" stroke="black"/>'
        yield f'<text x="{_LEFT + _SIDE / 2}" y="{_TOP + _SIDE + 38}" text-anchor="middle">measured (s)</text>'
        middle = _TOP + _SIDE / 2
        yield f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">simulated (s)</text>'

    def _ticks(self) -> Iterator[float]:
        for power in range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1):
            for digit in (1, 2, 5):
                value = digit * 10.0**power
                if self.least <= value <= self.most:
                    yield value
