"""Small labelled sentences whose labels hang on the word, its ending, and the word before it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ostinato.runs import RunDir
from ostinato.tasks import working
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.tagging.options import Config, DataOptions, ModelOptions
from ostinato.tasks.tagging.predict import TaggingPredictor
from ostinato.train.options import TaskTrainOptions

Pairs = list[tuple[str, str]]

ALONE = {"the": "DET", "a": "DET", "old": "ADJ", "red": "ADJ", "in": "ADP", ".": "PUNCT"}
STEMS = ["walk", "talk", "plan", "turn", "stop", "play"]


def sentences(count: int = 80, seed: int = 0) -> list[Pairs]:
    """Words with parts of speech; `walk` is a noun after a determiner and else a verb, `walked` always a verb."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        pairs: Pairs = []
        for _ in range(draw.randint(1, 9)):
            word = draw.choice([*ALONE, *STEMS, *STEMS])
            if word in ALONE:
                pairs.append((word, ALONE[word]))
            elif draw.random() < 0.3:
                pairs.append((f"{word}ed", "VERB"))
            else:
                pairs.append((word, "NOUN" if pairs and pairs[-1][1] == "DET" else "VERB"))
        found.append(pairs)
    return found


NAMES = {"PER": ["Ann Lee", "Bob", "Cy van Dam"], "LOC": ["Rome", "New York"]}


def entities(count: int = 80, seed: int = 0) -> list[Pairs]:
    """Words with BIO labels of names."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        pairs: Pairs = []
        for _ in range(draw.randint(1, 5)):
            label = draw.choice([*NAMES, "O"])
            words = draw.choice(NAMES[label]).split() if label in NAMES else [draw.choice([*ALONE, *STEMS])]
            tags = ["O"] if label == "O" else [f"B-{label}", *[f"I-{label}"] * (len(words) - 1)]
            pairs += zip(words, tags, strict=True)
        found.append(pairs)
    return found


WORDS = {"我": "PRON", "喜歡": "VERB", "圖書館": "NOUN", "書": "NOUN", "看": "VERB", "很大": "ADJ"}


def chinese(count: int = 60, seed: int = 0) -> list[Pairs]:
    """Words of one to three characters with parts of speech."""
    draw = random.Random(seed)
    return [[(word, WORDS[word]) for word in draw.choices(list(WORDS), k=draw.randint(1, 7))] for _ in range(count)]


def columns(rows: Sequence[Pairs], separator: str = "\t") -> str:
    """As CoNLL columns."""
    return "".join("".join(f"{word}{separator}{label}\n" for word, label in pairs) + "\n" for pairs in rows)


def conllu(rows: Sequence[Pairs]) -> str:
    """As CoNLL-U, with a comment, a range and an empty node in every sentence."""
    found = []
    for number, pairs in enumerate(rows, 1):
        lines = [f"# sent_id = {number}", "1-2\trange\t_\t_\t_\t_\t_\t_\t_\t_", "0.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_"]
        lines += [
            f"{place}\t{word}\t{word.lower()}\t{label}\t_\t_\t0\t_\t_\tSpaceAfter=No"
            for place, (word, label) in enumerate(pairs, 1)
        ]
        found.append("\n".join(lines) + "\n\n")
    return "".join(found)


def segmented(rows: Sequence[Pairs]) -> str:
    """As lines of words parted by blanks."""
    return "".join(" ".join(word for word, _ in pairs) + "\n" for pairs in rows)


def write(path: Path, text: str) -> str:
    """The path of a new file with that text."""
    path.write_text(text, "utf8", newline="")
    return str(path)


def config(
    train: str, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **options: Any
) -> Config:
    """A small network, a few epochs."""
    small = {"hidden": 12, "embedding": 8, "kind": "gru", "letter_size": 6, "letter_hidden": 8, "pair_size": 6}
    quick = {"epochs": 8, "rows": 8, "learning_rate": 0.02, "threads": 1, "precision": "fp32"}
    return Config(
        DataOptions(**{"train": (train,), **(data or {})}),
        ModelOptions(**{**small, "dropout": 0.1, "hidden_rare": 0.02, **(model or {})}),
        TaskTrainOptions(**{**quick, **options}),
    )


def trained(plan: Config, path: Path, notes: list[str] | None = None) -> RunDir:
    """A run of that configuration."""
    return working.train("tagging", plan, path, Callbacks(note=[].append if notes is None else notes.append))


def loaded(run: RunDir) -> TaggingPredictor:
    """What answers for it."""
    found = working.load(run.path)
    assert isinstance(found, TaggingPredictor)
    return found
