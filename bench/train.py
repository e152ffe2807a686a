"""Training beside PyTorch's example: `python bench/train.py ...`, the same as `ostinato bench train`."""

import sys

from ostinato.cli import main

main(["bench", "train", *sys.argv[1:]])
