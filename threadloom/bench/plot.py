"""Two kinds of plots as SVG text: horizontal bars around 1, and lines over a number of workers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#000000")
_STYLE = "<style>text{font:12px sans-serif}.t{font-weight:bold}.g{stroke:#ccc}.a{stroke:#000}</style>"


def bars(title: str, rows: Sequence[tuple[str, float]], note: str = "") -> str:
    """One bar a row for ratios, on a logarithmic axis; what is slower than 1 goes to the left."""
    known = [value for _, value in rows if value > 0]
    reach = max([abs(math.log2(value)) for value in known] + [0.5]) * 1.15
    width, left, line = 760, 320, 20
    middle, scale = left + (width - left) / 2, (width - left - 120) / 2 / reach
    height = 60 + line * len(rows)
    parts = [_open(width, height, title, note)]
    parts.append(f'<line class="a" x1="{middle:.0f}" y1="40" x2="{middle:.0f}" y2="{height - 16}"/>')
    for number, (label, value) in enumerate(rows):
        top = 44 + line * number
        length = math.log2(value) * scale if value > 0 else 0
        start = middle + min(length, 0)
        colour = _COLOURS[0] if length >= 0 else _COLOURS[1]
        end = middle + length + (4 if length >= 0 else -4)
        anchor = "start" if length >= 0 else "end"
        parts.append(f'<text x="4" y="{top + 11}">{escape(label)}</text>')
        parts.append(f'<rect x="{start:.1f}" y="{top}" width="{abs(length):.1f}" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{end:.1f}" y="{top + 11}" text-anchor="{anchor}">{value:.2f}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def lines(title: str, series: Mapping[str, Sequence[tuple[int, float]]], note: str = "") -> str:
    """Speed over workers, 1 at one worker; the diagonal is what more workers could give at most."""
    most = max((x for points in series.values() for x, _ in points), default=1)
    width, height, left, bottom = 760, 440, 50, 400
    across, up = (width - left - 220) / max(most - 1, 1), (bottom - 60) / max(most, 1)

    def at(x: float, y: float) -> str:
        return f"{left + (x - 1) * across:.1f},{bottom - y * up:.1f}"

    parts = [_open(width, height, title, note)]
    for count in range(1, most + 1):
        parts.append(f'<text x="{left + (count - 1) * across:.1f}" y="{bottom + 18}">{count}</text>')
        parts.append(f'<text x="4" y="{bottom - count * up + 4:.1f}">{count}x</text>')
    parts.append(f'<polyline class="g" fill="none" points="{at(1, 1)} {at(most, most)}"/>')
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(at(x, y) for x, y in points)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        place = 60 + 18 * number
        parts.append(f'<text x="{width - 200}" y="{place}" fill="{colour}">{escape(name)} {points[-1][1]:.2f}x</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _open(width: int, height: int, title: str, note: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'{_STYLE}<rect width="100%" height="100%" fill="white"/><text class="t" x="4" y="16">{escape(title)}</text>'
        f'<text x="4" y="33">{escape(note)}</text>'
    )
