"""Small labelled texts whose label hangs on one word and on what stands before it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from ostinato.tasks.classification.options import Config, DataOptions, ModelOptions, TrainOptions

FILLERS = ["the", "a", "of", "in", "old", "new", "small", "great", "city", "house", "man", "which", "it", "was"]
KEYS = {"PLACE": ("where", "town"), "PERSON": ("who", "poet"), "NUMBER": ("many", "count")}


def examples(count: int = 120, seed: int = 0) -> list[tuple[str, str]]:
    """Pairs of label and text; the key word stands anywhere."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        label = draw.choice(sorted(KEYS))
        words = [draw.choice(FILLERS) for _ in range(draw.randint(1, 9))]
        words.insert(draw.randint(0, len(words)), draw.choice(KEYS[label]))
        found.append((label, " ".join(words)))
    return found


def write(path: Path, rows: list[tuple[str, str]] | None = None, form: str = "first") -> Path:
    """The examples in one of the forms."""
    lines = {
        "first": lambda label, text: f"{label} {text}",
        "tsv": lambda label, text: f"{text}\t{label}",
        "fasttext": lambda label, text: f"__label__{label} {text}",
        "jsonl": lambda label, text: json.dumps({"id": 7, "text": text, "label": label}),
    }[form]
    path.write_text("".join(f"{lines(label, text)}\n" for label, text in (examples() if rows is None else rows)))
    return path


def config(
    train: Path, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **options: Any
) -> Config:
    """A small network, a few epochs."""
    return Config(
        DataOptions(**{"train": (str(train),), "min_count": 1, "tokeniser": "blank", **(data or {})}),
        ModelOptions(**{"hidden": 12, "kind": "gru", "dropout": 0.1, **(model or {})}),
        TrainOptions(**{"epochs": 6, "rows": 8, "learning_rate": 0.02, "threads": 1, "precision": "fp32", **options}),
    )
