"""A timeline as one HTML file that needs nothing else: zoom, move, hover, follow an iteration, light and dark.

The page is `timeline_page.html`; the timeline's JSON and the colours are put into it.
"""

from __future__ import annotations

import json
from pathlib import Path

from threadloom.sched.timeline import Timeline, to_json
from threadloom.sched.timeline_svg import ITERATIONS, OUTER

PAGE = Path(__file__).with_name("timeline_page.html")


def render_html(timeline: Timeline) -> str:
    """The page; text of the user's (names of tasks and buffers) cannot end the JSON element."""
    text = to_json(timeline).replace("<", "\\u003c")
    page = PAGE.read_text(encoding="utf-8")
    page = page.replace("/*COLORS*/", json.dumps(ITERATIONS)).replace("/*OUTER*/", json.dumps(OUTER))
    return page.replace("/*TIMELINE*/", text)
