"""The step of every recurrent cell in NumPy, one file a family; importing this package registers them all."""

from ostinato.stream.cells import elman, gated_delta, gru, lstm, minimal
from ostinato.stream.cells.base import StreamCell, cells

__all__ = ["StreamCell", "cells", "elman", "gated_delta", "gru", "lstm", "minimal"]
