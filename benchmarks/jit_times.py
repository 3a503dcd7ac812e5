"""CPU seconds that it takes to compile kernels in a warm process, part by part: the least of ROUNDS.

    python benchmarks/jit_times.py [--rounds 15] [--json FILE]

Plans are made before; the disk cache is not used. Times of one thread (`process_time`): what others do on the machine
changes them by caches and by threads of one core only. Rounds go through all cases: a slow second costs each one of its
rounds, not one case all of them.
"""

from __future__ import annotations

import argparse
import itertools
import time

from threadloom.bench.run import commit
from threadloom.cli import json_output
from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import choose
from threadloom.machine.cpu import host
from threadloom.sched.reuse import program_for
from threadloom.targets.cpu import compile as cpu
from threadloom.targets.cpu import jit
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.host import host_cpu

CASES = {
    "softmax": ("softmax", {}),
    "rmsnorm": ("rmsnorm", {}),
    "matmul": ("matmul", {}),
    "attention": ("flash_attention", {}),
    "attention, causal": ("flash_attention", {"causal": True}),
    "attention, variable lengths": ("flash_attention_varlen", {}),
    "chunk_scan": ("chunk_scan", {}),
    "retention": ("retention", {}),
    "w4_matmul": ("w4_matmul", {}),
}
GOAL_S = 0.1
PARTS = ("lower_s", "text_s", "llvm_s", "link_s")


class Case:
    """A planned call; `turns` are the seconds of each part, `made` the lines and bytes of the code."""

    def __init__(self, example: str, choices: dict[str, object]):
        chosen = choose(example, {})
        call = bound_call(chosen, {**make_inputs(chosen), **choices})
        self.schedule = cpu.cpu_schedule(program_for(call.kernel, call.dims, host()).program)
        self.form = cpu.form_for(self.schedule, call.arrays, call.dims)
        self.turns: list[list[float]] = []
        self.made: dict[str, int] = {}

    def turn(self) -> None:
        at = [time.process_time()]
        _, module = cpu.lower(self.schedule, self.form, cpu.host_target())
        at.append(time.process_time())
        text = emit_llvm(module)
        at.append(time.process_time())
        code = jit.compile_object(text, host_cpu().target)
        at.append(time.process_time())
        jit._link(code, [cpu.ENTRY], jit._support_symbols(text))
        at.append(time.process_time())
        self.turns.append([end - start for start, end in itertools.pairwise(at)])
        self.made = {"lines": text.count("\n"), "object_bytes": len(code)}

    def result(self) -> dict[str, object]:
        """Least seconds of each part, and of the whole."""
        parts = dict(zip(PARTS, map(min, zip(*self.turns, strict=True)), strict=True))
        return {"all_s": min(map(sum, self.turns)), **parts, **self.made}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases, with commas")
    json_output.add_json_argument(parser)
    options = parser.parse_args()
    wanted = [name for name in CASES if not options.only or name in options.only.split(",")]
    cases = {name: Case(*CASES[name]) for name in wanted}
    for _ in range(options.rounds):
        for case in cases.values():
            case.turn()
    results = {name: case.result() for name, case in cases.items()}
    for name, made in results.items():
        parts = ", ".join(f"{part.removesuffix('_s')} {made[part] * 1e3:.1f}" for part in PARTS)
        verdict = "within" if made["all_s"] < GOAL_S else "beyond"
        print(f"{name:28s} {made['all_s'] * 1e3:6.1f} ms, {verdict} the goal: {parts}, {made['lines']} lines")
    about = {"cpu": host_cpu().target.cpu, "commit": commit(), "goal_s": GOAL_S, "rounds": options.rounds}
    json_output.write(options, "jit", 1, {**about, "results": results})


if __name__ == "__main__":
    main()
