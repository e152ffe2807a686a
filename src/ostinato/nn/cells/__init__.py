"""Recurrent cells, one file each; importing this package registers them all in `cells`."""

from ostinato.nn.cells import elman, gru, lstm
from ostinato.nn.cells.base import Cell, cells

__all__ = ["Cell", "cells", "elman", "gru", "lstm"]
