"""Small pairs: sequences said backwards, words for words, letters for sounds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ostinato.runs import RunDir
from ostinato.tasks import working
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.translation.options import Config, DataOptions, ModelOptions, SearchOptions, TrainOptions
from ostinato.tasks.translation.predict import TranslationPredictor

Pairs = list[tuple[str, str]]

ANIMALS = {"猫": "cat", "狗": "dog", "鸟": "bird"}
DEEDS = {"吃": "eats", "看": "sees", "追": "chases"}

WORDS = {
    "the": "das", "a": "ein", "house": "Haus", "dog": "Hund", "sees": "sieht", "eats": "isst", "red": "rotes",
    "cake": "Kuchen", "small": "kleines",
}  # fmt: skip


def reversed_pairs(count: int = 500, seed: int = 0, letters: str = "abcdefgh", most: int = 7) -> Pairs:
    """Letters parted by blanks, and the same in capitals from the end."""
    draw = random.Random(seed)
    rows = [[draw.choice(letters) for _ in range(draw.randint(1, most))] for _ in range(count)]
    return [(" ".join(row), " ".join(reversed(row)).upper()) for row in rows]


def sentences(count: int = 300, seed: int = 0) -> Pairs:
    """English and German of a kind, with a sign that touches the word before; names are copied."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        words = [draw.choice([*WORDS]) for _ in range(draw.randint(1, 6))]
        mark = draw.choice(".!")
        found.append((" ".join(words) + mark, " ".join(WORDS[word] for word in words) + mark))
    return found


def chinese() -> Pairs:
    """Every short sentence of three animals and three deeds, in Chinese and in English."""
    return [
        (f"这只{who}{deed}那只{whom}。", f"this {ANIMALS[who]} {DEEDS[deed]} that {ANIMALS[whom]} .")
        for who in ANIMALS
        for deed in DEEDS
        for whom in ANIMALS
    ]


def columns(rows: Pairs) -> str:
    """As lines of two columns."""
    return "".join(f"{source}\t{target}\n" for source, target in rows)


def write(path: Path, text: str) -> str:
    """The path of a new file with that text."""
    path.write_text(text, "utf8", newline="")
    return str(path)


def parallel(folder: Path, rows: Pairs, name: str = "t") -> tuple[str, str]:
    """Two parallel files."""
    sources, targets = ("".join(f"{row[side]}\n" for row in rows) for side in (0, 1))
    return write(folder / f"{name}.en", sources), write(folder / f"{name}.de", targets)


def config(
    train: tuple[str, ...],
    data: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    search: dict[str, Any] | None = None,
    **options: Any,
) -> Config:
    """A small network, a few epochs."""
    small = {"kind": "gru", "hidden": 24, "embedding": 20, "dropout": 0.0}
    quick = {"epochs": 8, "rows": 16, "tokens": 300, "learning_rate": 0.015, "threads": 1, "precision": "fp32"}
    return Config(
        DataOptions(**{"train": train, "tokeniser": "blank", **(data or {})}),
        ModelOptions(**{**small, **(model or {})}),
        TrainOptions(**{**quick, **options}),
        SearchOptions(**(search or {})),
    )


def trained(plan: Config, path: Path, notes: list[str] | None = None) -> RunDir:
    """A run of that configuration."""
    return working.train("translation", plan, path, Callbacks(note=[].append if notes is None else notes.append))


def loaded(run: RunDir) -> TranslationPredictor:
    """What answers for it."""
    found = working.load(run.path)
    assert isinstance(found, TranslationPredictor)
    return found
