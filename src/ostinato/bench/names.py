"""The names of all cases; apart from the rest so that the command line's help opens nothing heavy."""

from __future__ import annotations

from typing import Literal

TrainCaseName = Literal["lstm-200", "lstm-650", "lstm-200-33k", "char-512", "min-gru", "min-lstm"]
StreamCaseName = Literal["lstm-256", "lstm-512", "lstm-1024", "sessions-16", "sessions-256", "transformer"]
NGramCaseName = Literal[
    "arpa", "model", "order3", "short", "bounded", "cold", "fit", "score", "step", "next", "open", "size", "growth"
]
TasksCaseName = Literal["train", "joeynmt", "beam", "tag", "growth"]
EmbedCaseName = Literal[
    "skip-gram", "skip-gram-300", "cbow", "tree", "process", "vocabulary", "format", "analogies", "registers", "quality"
]
