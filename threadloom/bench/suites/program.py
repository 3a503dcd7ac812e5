"""What a suite says about each of its programs, and what building and running it gave."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from threadloom.bench.suites.process import Outcome

PASS, RAN, WRONG, BUILD, CRASH, TIME = "pass", "ran", "wrong", "build", "crash", "time"
WAIVED, INPUT = "waived", "input"
MEANINGS = {
    PASS: "its own check, or ours against a reference, says right",
    RAN: "exit status 0; the program checks nothing",
    WRONG: "its check says wrong",
    BUILD: "does not build",
    CRASH: "ends by a signal or an exit status other than 0",
    TIME: "over a limit (CPU time, memory, output), or idle for good",
    INPUT: "an input file that it reads is not in the checkout",
    WAIVED: "says itself that the device lacks what it needs",
}

# Constants that a copy's sources get smaller: file, text, what replaces it.
Edits = tuple[tuple[str, str, str], ...]

# (folder that it ran in, outcomes of its commands) -> result, cause
Judge = Callable[[Path, list[Outcome]], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Program:
    """`build` and `runs` are shell commands, run in `folder` of the copy."""

    name: str
    folder: str  # relative to the checkout
    build: tuple[str, ...]
    runs: tuple[str, ...]
    judge: Judge = field(default=lambda folder, outcomes: judge_by_output(folder, outcomes))
    prepare: Callable[[Path], None] | None = None  # makes inputs in the copy
    left_out: str = ""  # why it is not tried
    setup: str = ""  # what `runs` start with and tables leave out
    changed: str = ""  # constants that `prepare` makes smaller in the copy's source


@dataclass(slots=True)
class Row:
    """A line of a suite's table; times in seconds (CPU time of the build, clock time of the runs).

    `by`: commit of threadloom that ran it, with "+" where files had changed since; "" unknown.
    """

    name: str
    result: str
    cause: str = ""
    build_s: float = 0.0
    run_s: float = 0.0
    command: str = ""
    run_cpu_s: float = 0.0
    by: str = ""


def make_smaller(edits: Edits, folder: Path) -> None:
    for file, old, new in edits:
        text = (folder / file).read_text(errors="surrogateescape")
        if old not in text:
            raise ValueError(f"{file} has no {old!r}")
        (folder / file).write_text(text.replace(old, new), errors="surrogateescape")


def shown_edits(edits: Edits) -> str:
    return "; ".join(f"{file}: {old} -> {new}" for file, old, new in edits)


_SAYS_WRONG = re.compile(
    r"\bfail(?:ed|ure|s)?\b|\bincorrect\b|\bmis-?match(?:es|ed)?\b|\bwrong\b|verification error|\bnot equal\b"
    r"|\b(?:do|does|did)(?: not|n't) match\b|\bnot (?:correct|valid|verified)\b|\bunsuccessful"
    r"|test result: *error|CUDA error|illegal memory"
    r"|^\s*error\b(?! \(| bound| statistics| threshold:| after iteration)",
    re.IGNORECASE | re.MULTILINE,
)
_NOTHING_WRONG = re.compile(
    r"(?:\bincorrect matches: 0\b|mismatched \(count=\d+\)(?=\s+GPU Result matches CPU Result within tolerance)|"
    r"\b(?:0|no|zero)\s+(?:errors?|mis-?match(?:es)?|fail(?:ed|ures?)?)|"
    r"\b(?:errors?|mis-?match(?:es)?|fail(?:ed|ures?)?)\s*(?:count|:|=|is|rate:?)*\s*(?:0(?:\.0*)?(?:e[+-]?0+)?(?![\d.\w])|none))",
    re.IGNORECASE,
)
_SAYS_RIGHT = re.compile(
    r"(?<!be )(?<!ward )\bpass(?:ed)?\b|\bsuccess(?:ful(?:ly)?)?\b|\bcorrect\b|\bverified\b|\bverification (?:ok|succe)"
    r"|\bmatch(?:es)?\b|\bno errors?\b|\bvalid\b|\bOK\b",
    re.IGNORECASE,
)


def judge_by_output(folder: Path, outcomes: list[Outcome]) -> tuple[str, str]:
    """By exit status and by what programs that check themselves print."""
    bad = next((outcome for outcome in outcomes if not outcome.good), None)
    if bad is not None:
        return judge_bad(bad)
    output = "\n".join(outcome.output for outcome in outcomes)
    rest = _NOTHING_WRONG.sub("", output)
    if "failed as expected" in rest:  # a program about failing asserts
        rest = re.sub(r".*(?:Assertion .* failed|failed as expected).*", "", rest)
    wrong = _SAYS_WRONG.search(rest)
    if wrong:
        return WRONG, line_of(rest, wrong.start())
    right = _SAYS_RIGHT.search(output) or _NOTHING_WRONG.search(output)
    return (PASS, line_of(output, right.start())) if right else (RAN, "")


def judge_bad(outcome: Outcome) -> tuple[str, str]:
    """A command that did not end well."""
    if outcome.stopped:
        return TIME, limit_cause(outcome)
    last = [line.strip() for line in outcome.output.splitlines() if line.strip()]
    shown = last[-1][:160] if last else ""
    if _SAYS_WRONG.search(outcome.output) and outcome.status > 0:
        wrong = _SAYS_WRONG.search(outcome.output)
        return WRONG, line_of(outcome.output, wrong.start())
    how = f"signal {-outcome.status}" if outcome.status < 0 else f"exit status {outcome.status}"
    return CRASH, f"{how}: {shown}"


def limit_cause(outcome: Outcome) -> str:
    """Which limit ended a command."""
    if outcome.stopped == "idle":
        return f"hangs: waits without using any CPU, after {outcome.cpu_s:.0f} s of CPU time"
    return f"over the {outcome.stopped} limit after {outcome.cpu_s:.0f} s of CPU time"


def line_of(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : end if end >= 0 else len(text)].strip()[:160]


_BUILD_CAUSE = re.compile(
    r"^.*(?:\berror\b|undefined symbol|undefined reference|No such file|not found|No rule).*$", re.M
)


def build_cause(output: str) -> str:
    """The first line of a failed build that says why."""
    found = _BUILD_CAUSE.search(output)
    lines = [line for line in output.splitlines() if line.strip()]
    return (found[0].strip() if found else lines[-1].strip() if lines else "")[:200]
