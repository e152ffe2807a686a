"""Run commands one after another and print what they took: `python -I clock.py '[["sort", "file"], ...]'`.

A script of its own because a process is said to have used at least the memory of the one that started it, so
whoever starts must be small. Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import time


def run(words: list[str]) -> tuple[float, float, int]:
    """Seconds by the clock, seconds of processor, and most bytes of memory of one command. Exits if it fails."""
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    begin = time.perf_counter()
    child = os.posix_spawnp(words[0], words, os.environ, file_actions=silent)
    _, status, used = os.wait4(child, 0)
    wall = time.perf_counter() - begin
    if code := os.waitstatus_to_exitcode(status):
        sys.exit(code if code > 0 else 128 - code)
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    wall, cpu, memory = zip(*map(run, json.loads(sys.argv[1])), strict=True)
    print(json.dumps({"wall": sum(wall), "cpu": sum(cpu), "memory": max(memory)}))
