"""Sequence tasks beside a PyTorch loop and JoeyNMT: `python bench/tasks.py ...`, as `ostinato bench tasks`."""

import sys

from ostinato.cli import main

main(["bench", "tasks", *sys.argv[1:]])
