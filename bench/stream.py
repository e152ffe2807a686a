"""A token at a time beside onnxruntime and PyTorch: `python bench/stream.py ...`, as `ostinato bench stream`."""

import sys

from ostinato.cli import main

main(["bench", "stream", *sys.argv[1:]])
