"""How good runs are by length, as a picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError
from ostinato.tasks import length_picture
from ostinato.tasks.length_picture import draw, keep, read
from ostinato.tasks.task import Report, Table

ROWS = (("1-8", "86", "49.54", "0.997"), ("9+", "1,435", "30.10", "1.02"))


def report(data: str = "data:test#1", measure: str = "BLEU", by: str = "length") -> Report:
    tables = (Table("measures", ("measure", "value"), (("bleu", "1"),)),
              Table("by source length, in words", ("words", "sources", measure, "length ratio"), ROWS, by))  # fmt: skip
    return Report("BLEU", 38.0, 1521, f"{data}|nrefs:1", {"bleu": 38.0}, tables)


def kept(folder: Path, made: Report) -> Path:
    folder.mkdir()
    keep(folder, made)
    return folder


def test_the_table_by_length_comes_back(tmp_path: Path) -> None:
    found = read(kept(tmp_path / "run", report()))
    assert found.classes == ("1-8", "9+")
    assert found.counts == ("86", "1,435")
    assert found.values == (49.54, 30.10)
    assert (found.measure, found.data, found.name) == ("BLEU", "data:test#1", str(tmp_path / "run"))


def test_a_line_for_each_run_with_its_classes_and_counts(tmp_path: Path) -> None:
    one, other = (read(kept(tmp_path / name, report())) for name in ("attends", "fixed"))
    draw([one, other], tmp_path / "lengths.svg")
    text = (tmp_path / "lengths.svg").read_text("utf8")
    assert all(word in text for word in ("attends", "fixed", "BLEU", "by source length, in words", "1,435", "1-8"))
    draw([one, other], tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "lengths.svg").read_bytes()


def test_values_stand_as_high_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *args, **named: (drawn.append(self), save(self, *args, **named))
    )
    draw([read(kept(tmp_path / "run", report()))], tmp_path / "lengths.png")
    line = drawn[0].axes[0].lines[0]
    assert list(line.get_ydata()) == [49.54, 30.10]
    assert list(line.get_xdata()) == [0, 1]


@pytest.mark.parametrize("other", [report(data="data:other#2"), report(measure="% exact")])
def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path, other: Report) -> None:
    found = [read(kept(tmp_path / "one", report())), read(kept(tmp_path / "other", other))]
    with pytest.raises(MismatchError, match="evaluate both on the same data"):
        draw(found, tmp_path / "lengths.svg")
    assert not (tmp_path / "lengths.svg").exists()


def test_runs_without_a_table_by_length_say_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ostinato evaluate"):
        read(tmp_path)
    with pytest.raises(DataError, match="no table by length"):
        read(kept(tmp_path / "series", report(by="")))


@pytest.mark.parametrize("text", ["{", '{"format": 1}', '{"format": 1, "signature": "", "tables": [{"by": "length"}]}'])
def test_a_damaged_report_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / length_picture.FILE).write_text(text, "utf8")
    with pytest.raises(FormatError, match=r"report\.json"):
        read(tmp_path)


def test_only_pictures_are_drawn(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="svg"):
        draw([read(kept(tmp_path / "run", report()))], tmp_path / "lengths.pdf")


def test_what_is_kept_is_plain_json(tmp_path: Path) -> None:
    content = json.loads((kept(tmp_path / "run", report()) / length_picture.FILE).read_text("utf8"))
    assert content["value"] == 38.0
    assert content["tables"][1]["rows"][0] == list(ROWS[0])


def test_a_run_named_in_a_script_without_a_font_is_drawn_without_a_warning(tmp_path: Path) -> None:
    draw([read(kept(tmp_path / "翻译", report()))], tmp_path / "lengths.png")
    assert (tmp_path / "lengths.png").stat().st_size > 1000


def test_a_table_of_classes_says_what_they_are_of() -> None:
    from ostinato.tasks.tables import by_class

    made = by_class("by length", "words", np.array([1, 9]), np.array([True, False]), (1, 6), "length")
    assert (made.by, made.rows) == ("length", (("1-5", "1", "100.00"), ("6+", "1", "0.00")))
