"""Recurrent cells, one file each; importing this package registers them all in `cells`."""

from ostinato.nn.cells import (
    elman,
    gated_delta,
    gru,
    gru_reset_before,
    lstm,
    lstm_1997,
    lstm_coupled,
    lstm_layer_norm,
    lstm_peephole,
    min_gru,
    min_lstm,
)
from ostinato.nn.cells.base import Cell, ForgetGate, cells

__all__ = [
    "Cell",
    "ForgetGate",
    "cells",
    "elman",
    "gated_delta",
    "gru",
    "gru_reset_before",
    "lstm",
    "lstm_1997",
    "lstm_coupled",
    "lstm_layer_norm",
    "lstm_peephole",
    "min_gru",
    "min_lstm",
]
