"""Learning curves: what is drawn is what the log says, equal logs give equal bytes, nothing half-written."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from ostinato.core.errors import ConfigError, DataError
from ostinato.train.curves import COLOURS, compose, draw, read, round_numbers

Event = dict[str, Any]


def a_log(perplexities: list[float], every: int = 2, **more: Any) -> list[Event]:
    """A start event and a report of 1,000 tokens for each perplexity; every second one validates, 10% worse."""
    events: list[Event] = [{"event": "start", "step": 0, "outputs": 60}]
    for number, perplexity in enumerate(perplexities, 1):
        valid = 1.1 * perplexity if number % every == 0 else None
        report = {"event": "report", "step": 50 * number, "tokens": 1000 * number, "perplexity": perplexity}
        report |= {"valid_perplexity": valid, "gradient_norm": 1 / number, "learning_rate": 0.002 / number, **more}
        events += [report, {"event": "sample", "step": 50 * number, "text": ["x"]}]
    return events


def figure_of(**logs: list[Event]) -> Figure:
    return compose({name: read(name, events) for name, events in logs.items()})


def lines_of(figure: Figure, panel: int) -> list[list[tuple[float, float]]]:
    return [
        list(zip(line.get_xdata(), line.get_ydata(), strict=True))  # type: ignore[arg-type]
        for line in figure.axes[panel].lines
    ]


def test_the_lines_are_the_numbers_of_the_log() -> None:
    figure = figure_of(lstm=a_log([30.0, 20.0, 15.0, 12.0]))
    train, valid = lines_of(figure, 0)
    assert train == [(1000, 30.0), (2000, 20.0), (3000, 15.0), (4000, 12.0)]
    assert valid == [(2000, 1.1 * 20.0), (4000, 1.1 * 12.0)]
    assert lines_of(figure, 1) == [[(1000, 1.0), (2000, 1 / 2), (3000, 1 / 3), (4000, 1 / 4)]]
    assert lines_of(figure, 2) == [[(1000, 0.002), (2000, 0.002 / 2), (3000, 0.002 / 3), (4000, 0.002 / 4)]]


def test_every_run_is_in_the_legend_with_its_best_validation_perplexity() -> None:
    legend = figure_of(lstm=a_log([30.0, 20.0, 15.0, 12.0]), gru=a_log([25.0])).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["lstm  (best 13.2)", "gru"]


def test_runs_are_told_apart_by_colour_by_dashes_and_by_marks(tmp_path: Path) -> None:
    logs = {f"run{i}": a_log([9.0, 8.0]) for i in range(5)}
    draw(logs, tmp_path / "curves.svg")
    dashes: dict[str, set[str]] = {colour: set() for colour in COLOURS[:5]}
    for style in re.findall('style="(fill: none;[^"]*stroke-width: 2[^"]*)"', (tmp_path / "curves.svg").read_text()):
        colour, pattern = re.search("stroke: (#[0-9a-f]+)", style), re.search("stroke-dasharray: ([0-9.,]+)", style)
        if colour and colour[1].upper() in dashes:
            dashes[colour[1].upper()].add(pattern[1] if pattern else "solid")
    assert len({min(patterns) for patterns in dashes.values()}) == 5
    assert len({line.get_marker() for line in figure_of(**logs).axes[0].lines} - {"None"}) == 5


def test_training_is_thin_and_validation_thick_on_a_logarithmic_axis() -> None:
    axes = figure_of(lstm=a_log([30.0, 20.0, 15.0, 12.0])).axes[0]
    train, valid = axes.lines
    assert train.get_linewidth() < valid.get_linewidth()
    assert axes.get_yscale() == "log"


def test_a_first_report_worse_than_guessing_does_not_flatten_the_rest() -> None:
    low, high = figure_of(lstm=a_log([1e100, 20.0, 12.0])).axes[0].get_ylim()
    assert low < 12
    assert 60 < high < 150


@pytest.mark.parametrize("odd", [math.inf, math.nan, None])
def test_numbers_that_cannot_be_drawn_are_left_out(odd: float | None) -> None:
    figure = figure_of(lstm=a_log([30.0, odd, 12.0], every=9))  # type: ignore[list-item]
    assert lines_of(figure, 0) == [[(1000, 30.0), (3000, 12.0)]]


def test_a_single_report_is_a_visible_mark() -> None:
    assert figure_of(lstm=a_log([30.0])).axes[0].lines[0].get_marker() == "o"


def test_the_svg_is_well_formed_and_names_the_runs(tmp_path: Path) -> None:
    draw({"runs/中文 <&>": a_log([30.0, 20.0]), "runs/gru": a_log([25.0])}, tmp_path / "curves.svg")
    text = "".join(ElementTree.parse(tmp_path / "curves.svg").getroot().itertext())
    for name in ("runs/中文 <&>", "runs/gru", "Perplexity", "Learning rate", "tokens"):
        assert name in text


@pytest.mark.parametrize("ending", ["svg", "png", "PNG"])
def test_equal_logs_give_equal_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        draw({"lstm": a_log([30.0, 20.0, 15.0])}, tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_a_png_is_a_png_of_print_size(tmp_path: Path) -> None:
    draw({"lstm": a_log([30.0, 20.0])}, tmp_path / "new" / "curves.png")
    content = (tmp_path / "new" / "curves.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20]) == 7.2 * 200


def test_a_run_without_reports_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"kn5: .*n-gram.*--train.report-every"):
        draw({"lstm": a_log([30.0]), "kn5": a_log([])}, tmp_path / "curves.svg")
    assert not list(tmp_path.iterdir())


def test_no_runs_and_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least one run"):
        draw({}, tmp_path / "curves.svg")
    for name in ("curves.pdf", "curves"):
        with pytest.raises(ConfigError, match=r"\.svg or \.png"):
            draw({"lstm": a_log([30.0])}, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_drawing_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "curves.svg"
    target.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(RuntimeError):
        draw({"lstm": a_log([30.0])}, target)
    assert [path.name for path in tmp_path.iterdir()] == ["curves.svg"]
    assert target.read_text() == "old"


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.01, 1.3), (4.6, 12.0), (10.0, 70.0), (50.0, 9000.0), (1e-6, 1e30), (33.0, 33.9), (0.98, 1.02), (2.0, 2.5)],
)
def test_an_axis_has_a_few_round_numbers(low: float, high: float) -> None:
    numbers = round_numbers(low, high)
    assert 2 <= len(numbers) <= 10
    assert low <= numbers[0] < numbers[-1] <= high
    assert numbers == sorted(numbers)
    assert all(len(f"{number:.6g}".replace(".", "").strip("0")) <= 3 for number in numbers if 1e-3 < number < 1e6)


def test_round_numbers_by_hand() -> None:
    assert round_numbers(12.0, 70.0) == pytest.approx([12.0, 15.0, 20.0, 30.0, 40.0, 50.0, 70.0])
    assert round_numbers(50.0, 9000.0) == pytest.approx([50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0])
