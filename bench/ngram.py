"""N-gram models beside KenLM: `python bench/ngram.py TEXT HELDOUT ...`, the same as `ostinato bench ngram`."""

import sys

from ostinato.cli import main

main(["bench", "ngram", *sys.argv[1:]])
