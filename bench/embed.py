"""Word vectors beside gensim: `python bench/embed.py ...`, the same as `ostinato bench embed`."""

import sys

from ostinato.cli import main

main(["bench", "embed", *sys.argv[1:]])
