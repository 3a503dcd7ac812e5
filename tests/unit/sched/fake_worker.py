"""A measuring worker that misbehaves on request: the partition's group says how."""

from __future__ import annotations

import json
import os
import sys
import time

HANG, DIE, REFUSE = 11, 12, 13


def main() -> None:
    for line in sys.stdin:
        partition = json.loads(json.loads(line)["recipe"])["partition"]
        if partition["group"] == HANG:
            time.sleep(60)
        if partition["group"] == DIE:
            os._exit(3)
        if partition["group"] == REFUSE:
            print(json.dumps({"error": "cannot compile"}), flush=True)
        else:
            extents = [t["extent"] for t in partition["tiles"]]
            print(json.dumps({"ns": 1000.0 * sum(extents)}), flush=True)


if __name__ == "__main__":
    main()
