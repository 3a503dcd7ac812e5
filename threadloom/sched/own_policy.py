"""A policy that the user wrote, whose faults are told as the user's."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from threadloom.errors import CompileError, ThreadloomError
from threadloom.sched.fold import Modulo
from threadloom.sched.mechanism import BAD_POLICY
from threadloom.sched.pipeline import Problem
from threadloom.source import Loc


def own_policy(policy: Callable[[Problem], object]) -> Callable[[Problem], Modulo | None]:
    name = getattr(policy, "__name__", type(policy).__name__)

    def schedule(problem: Problem) -> Modulo | None:
        try:
            made = policy(problem)
        except ThreadloomError:
            raise
        except Exception as error:
            what = f"policy {name} fails: {type(error).__name__}: {error}"
            raise CompileError(BAD_POLICY, what, loc=_place(error, policy)) from error
        if made is None or isinstance(made, Modulo):
            return made
        code = getattr(policy, "__code__", None)
        raise CompileError(
            BAD_POLICY,
            f"policy {name} returns a {type(made).__name__}",
            why="a policy returns the schedule of the loop's problem, or None where it finds none",
            try_="return plan.finish(), as docs/howto-policy.md does",
            loc=Loc(code.co_filename, code.co_firstlineno) if code else None,
        )

    return schedule


def _place(error: Exception, policy: Callable[[Problem], object]) -> Loc | None:
    """The last line of the policy's own file that led to the error."""
    code = getattr(policy, "__code__", None)
    own = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    return Loc(own[-1].filename, own[-1].lineno or 1, (own[-1].colno or 0) + 1) if own else None
