"""A timeline as one HTML file that needs nothing else: zoom, move, hover, follow an iteration, light and dark.

The page is `timeline_page.html`; the timeline's JSON, the colours and the tasks' letters are put into it.
"""

from __future__ import annotations

import json
from pathlib import Path

from threadloom.sched.timeline import Timeline, to_json
from threadloom.sched.timeline_svg import ITERATIONS, OUTER
from threadloom.sched.timeline_text import task_letters

PAGE = Path(__file__).with_name("timeline_page.html")


def render_html(timeline: Timeline) -> str:
    """The page; text of the user's (names of tasks and buffers) cannot end the JSON element."""
    text = to_json(timeline).replace("<", "\\u003c")
    page = PAGE.read_text(encoding="utf-8")
    page = page.replace("/*COLORS*/", json.dumps(ITERATIONS)).replace("/*OUTER*/", json.dumps(OUTER))
    letters = json.dumps(task_letters(timeline)).replace("<", "\\u003c")
    return page.replace("/*LETTERS*/", letters).replace("/*TIMELINE*/", text)
