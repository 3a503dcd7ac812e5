"""A worker that compiles and measures nothing: the tile of axis m says what it answers."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

# extent of m -> what its plan does; others run in 1000 ns for each index of m
SPILLS, HANGS, FAILS, SLOW, WRONG = 64, 128, 192, 320, 448


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answer(request)), flush=True)


def extent(request: dict) -> int:
    tiles = json.loads(request["recipe"])["partition"]["tiles"]
    return next(t["extent"] for t in tiles if t["axis"] == "m")


def answer(request: dict) -> dict:
    if request["do"] == "load":
        return {"loaded": 0}
    if request["do"] == "make":
        m = extent(request)
        if "FAKE_GPU_CLOCKS" in os.environ:  # no plan misbehaves
            m += 1
        if m == FAILS:
            return {"error": "no code"}
        if m == SLOW:
            time.sleep(600)
        Path(request["path"]).write_text(str(m))
        return {"fault": "8 bytes are spilled" if m == SPILLS else ""}
    found = [int(Path(p).read_text()) for p in request["paths"]]
    if request["do"] == "clocks":
        return json.loads(os.environ["FAKE_GPU_CLOCKS"])
    if request["do"] == "explain_hang":
        return {"hang": "waits for full_k"}
    if HANGS in found:
        time.sleep(60)
    turns = len(found) > 1  # in a race the order is the other way round
    with open(os.environ["FAKE_GPU_LOG"], "a") as log:
        log.write(f"{found}\n")
    result = [1.0, 2.0] if WRONG not in found else [1.0, 2.5]
    return {"ns": [1e6 - m if turns else 1e6 + m for m in found], "sample": result}


if __name__ == "__main__":
    main()
