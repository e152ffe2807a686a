"""Claims: the rule of the verdict, what every claim must say, and runs that can be stopped."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.claims import page, results, running
from ostinato.claims.claim import SIZES, Claim, Figure, Interval, Quantity, Size, Source, Text, in_order
from ostinato.claims.evidence import Evidence, Finding, band
from ostinato.claims.verdict import Verdict, inside, judge, judge_claim, mean, spread, together
from ostinato.cli.app import run as command
from ostinato.core.errors import Interrupted
from ostinato.core.progress import Watch

ROOT = Path(__file__).parent.parent
CLAIMS = in_order()
each_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)

finite = st.floats(-100, 100)
values = st.lists(finite, min_size=1, max_size=6)
odd = st.lists(st.one_of(finite, st.sampled_from([math.nan, math.inf, -math.inf])), min_size=1, max_size=6)
ends = st.one_of(finite, st.sampled_from([math.inf, -math.inf]))
intervals = st.tuples(ends, ends).map(lambda pair: Interval(min(pair), max(pair)))
rules = st.booleans()
verdicts: st.SearchStrategy[Verdict] = st.sampled_from(["holds", "fails", "undecided"])


# --- the rule


@given(odd, intervals, rules)
def test_a_verdict_does_not_hang_on_the_order_of_seeds(numbers: list[float], interval: Interval, rule: bool) -> None:
    assert judge(numbers, interval, rule) == judge(numbers[::-1], interval, rule)


@given(odd, intervals, rules)
def test_what_holds_has_every_seed_inside(numbers: list[float], interval: Interval, rule: bool) -> None:
    if judge(numbers, interval, rule) == "holds":
        assert all(inside(number, interval) for number in numbers)
        assert inside(mean(numbers), Interval(interval.low - 1e-9, interval.high + 1e-9))


@given(values, intervals)
def test_what_fails_has_the_band_of_its_seeds_outside(numbers: list[float], interval: Interval) -> None:
    around = spread(numbers)
    if judge(numbers, interval) == "fails":
        assert around is not None
        low, high = mean(numbers) - around, mean(numbers) + around
        assert high < interval.low or low > interval.high
    elif around is not None and not all(inside(number, interval) for number in numbers):
        assert judge(numbers, interval) == "undecided"


@given(odd, intervals, st.floats(0, 50), rules)
def test_a_wider_interval_never_turns_a_claim_down(
    numbers: list[float], interval: Interval, more: float, rule: bool
) -> None:
    rank = {"fails": 0, "undecided": 1, "holds": 2}
    wider = Interval(interval.low - more, interval.high + more)
    assert rank[judge(numbers, wider, rule)] >= rank[judge(numbers, interval, rule)]


@given(odd, intervals)
def test_one_seed_is_a_counterexample_to_a_proof_and_decides_nothing_else(
    numbers: list[float], interval: Interval
) -> None:
    assert judge(numbers[:1], interval) == "undecided"
    within = all(inside(number, interval) for number in numbers)
    assert judge(numbers, interval, provable=True) == ("holds" if within else "fails")


def test_verdicts_by_hand() -> None:
    """2, 3 and 4 have mean 3 and spread 1: the band is 2 to 4."""
    numbers = [2.0, 3.0, 4.0]
    assert judge(numbers, Interval(2, 4)) == "holds"
    assert judge(numbers, Interval(3, 9)) == "undecided"
    assert judge(numbers, Interval(4, 9)) == "undecided"  # the band touches it
    assert judge(numbers, Interval(4.001, 9)) == "fails"
    assert judge(numbers, Interval(high=1.999)) == "fails"
    assert judge([2.0, 3.0, math.nan], Interval(2, 4)) == "undecided"
    assert judge([2.0, 3.0, math.inf], Interval(2), provable=True) == "fails"


@given(st.lists(verdicts, min_size=1, max_size=5))
def test_a_claim_is_as_good_as_its_worst_quantity(each: list[Verdict]) -> None:
    found = together(each)
    assert found in each
    assert (found == "holds") == (set(each) == {"holds"})
    assert (found == "fails") == ("fails" in each)


# --- what is measured


@given(st.lists(st.lists(finite, min_size=3, max_size=3), min_size=1, max_size=4))
def test_the_band_of_seeds_goes_from_the_least_to_the_most(drawn: list[list[float]]) -> None:
    found = band([([0, 1, 2], row) for row in drawn])
    for place, column in enumerate(zip(*drawn, strict=True)):
        assert found.low[place] == pytest.approx(min(column), rel=1e-5, abs=1e-300)
        assert found.high[place] == pytest.approx(max(column), rel=1e-5, abs=1e-300)
        assert found.y[place] == pytest.approx(sum(column) / len(column), rel=1e-5, abs=1e-9)


TO_TEN = Interval(0, 10)


def toy(measure: object, level: str = "observed", expected: Interval = TO_TEN) -> Claim:
    """A claim about the number that `measure` gives."""
    both = Text("text", "文本")
    quantity = Quantity("value", both, "number", expected, both)
    premises = both if level == "provable" else None
    return Claim(
        id="toy", level=level, statement=both, misreading=both, experiment=both, sources=(Source("Elman1990", both),),
        quantities=(quantity,), figures={"curve": Figure(both, both, both)}, measure=measure, premises=premises,
    )  # type: ignore[arg-type]  # fmt: skip


def finding(value: float) -> Finding:
    return Finding({"value": value}, {"curve": {"line": ([1, 2], [value, 2 * value])}})


def test_a_stopped_run_goes_on_with_the_seeds_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "source_digest", lambda: "the same")  # while somebody edits it
    asked: list[int] = []

    def measure(size: Size, seed: int, watch: Watch) -> Finding:
        asked.append(seed)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return finding(float(seed))

    with pytest.raises(KeyboardInterrupt):
        running.run(toy(measure), "quick", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["toy.quick.unfinished.json"]
    result = running.run(toy(measure), "quick", tmp_path)
    assert asked == [1, 2, 3, 3]
    assert result.evidence.numbers == {"value": (1.0, 2.0, 3.0)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy.json", "toy.md", "toy.svg"]


def test_edited_source_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.py").write_text("a = 1")
    monkeypatch.setattr(results, "SOURCE", tmp_path)
    before = results.source_digest()
    assert results.source_digest() == before
    (tmp_path / "one.py").write_text("a = 23")
    assert results.source_digest() != before


def test_seeds_that_other_source_made_are_measured_again(tmp_path: Path) -> None:
    left = {"source": "another", "seconds": 1, "began": "2020-01-01", "findings": {"1": finding(9.0).to_json()}}
    for content in (json.dumps(left), "{}", "damaged"):
        (tmp_path / "toy.quick.unfinished.json").write_text(content)
        result = running.run(toy(lambda size, seed, watch: finding(1.0)), "quick", tmp_path)
        assert result.evidence.numbers["value"] == (1.0, 1.0, 1.0)


def test_quick_and_full_results_stand_side_by_side_and_come_back_as_they_were(tmp_path: Path) -> None:
    made = {size: running.run(toy(lambda size, seed, watch: finding(seed / 3)), size, tmp_path) for size in SIZES}
    assert results.load(tmp_path, "toy") == made
    assert results.best(results.load(tmp_path, "toy")) == made["full"]
    again = running.run(toy(lambda size, seed, watch: finding(seed / 7)), "quick", tmp_path)
    assert results.load(tmp_path, "toy") == {"quick": again, "full": made["full"]}


def test_numbers_that_are_not_finite_are_kept_as_missing_and_judged_alike(tmp_path: Path) -> None:
    claim = toy(lambda size, seed, watch: finding(math.inf if seed == 2 else 1.0))
    running.run(claim, "quick", tmp_path)
    (stored,) = results.load(tmp_path, "toy").values()
    assert math.isnan(stored.evidence.numbers["value"][1])
    assert judge_claim(claim, stored.evidence.numbers)[0] == stored.verdict == "undecided"
    assert "NaN" not in (tmp_path / "toy.json").read_text()


def test_a_figure_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    claim = toy(lambda size, seed, watch: finding(float(seed)))
    running.run(claim, "quick", tmp_path)
    first = (tmp_path / "toy.svg").read_bytes()
    running.write_views(claim, tmp_path)
    assert (tmp_path / "toy.svg").read_bytes() == first
    assert b"<svg" in first


def test_a_provable_claim_that_does_not_hold_ends_with_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ostinato.cli import claims as commands

    for level, expected, code in (
        ("provable", Interval(2), 3),
        ("provable", Interval(1), 0),
        ("observed", Interval(2), 0),
    ):
        claim = toy(lambda size, seed, watch: finding(1.0), level, expected)
        monkeypatch.setattr(commands, "asked", lambda names, level, claim=claim: [claim])
        assert command(["claims", "run", "--quick", "--out", str(tmp_path)]) == code


@pytest.mark.parametrize("stopped", [KeyboardInterrupt(), Interrupted("`ostinato resume gone` goes on from here")])
def test_ctrl_c_ends_with_130_and_says_how_to_go_on(
    stopped: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ostinato.cli import claims as commands

    def measure(size: Size, seed: int, watch: Watch) -> Finding:
        if seed == 2:
            raise stopped
        return finding(1.0)

    monkeypatch.setattr(commands, "asked", lambda names, level: [toy(measure)])
    assert command(["claims", "run", "--quick", "--out", str(tmp_path)]) == 130
    said = capsys.readouterr().err
    assert "the same command goes on" in said
    assert "resume" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["toy.quick.unfinished.json"]


# --- what every claim says


@each_claim
def test_every_claim_is_told_in_full_in_both_languages(claim: Claim) -> None:
    texts = [claim.statement, claim.misreading, claim.experiment, *(source.reports for source in claim.sources)]
    texts += [quantity.what for quantity in claim.quantities]
    texts += [quantity.why for quantity in claim.quantities if quantity.why]
    texts += [text for figure in claim.figures.values() for text in (figure.title, figure.x, figure.y)]
    texts += [claim.premises] if claim.premises else []
    for text in texts:
        assert text.en.strip()
        assert re.search(r"[\u4e00-\u9fff]", text.zh), text
        assert not re.search(r"[\u4e00-\u9fff]", text.en), text
    assert claim.sources
    assert len({quantity.name for quantity in claim.quantities}) == len(claim.quantities)
    assert all(interval.low <= interval.high for interval in claim.expected.values())
    assert all(math.isfinite(low) or math.isfinite(high) for low, high in claim.expected.values())


@each_claim
def test_every_source_of_a_claim_is_a_paper_of_the_list(claim: Claim) -> None:
    papers = (ROOT / "docs" / "papers.md").read_text("utf8")
    for source in claim.sources:
        assert f"**[{source.key}]**" in papers


@each_claim
def test_a_claim_has_a_file_of_its_name(claim: Claim) -> None:
    name = claim.id.replace("-", "_")
    assert claim.measure.__module__ == f"ostinato.claims.statements.{name}"


def test_listing_opens_no_heavy_room() -> None:
    code = (
        "import sys; from ostinato.claims.claim import in_order; assert in_order();"
        "print(sorted({'torch', 'numba', 'matplotlib'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


@pytest.mark.parametrize("claim", in_order("provable"), ids=lambda claim: claim.id)
def test_what_is_provable_holds_here(claim: Claim, tmp_path: Path) -> None:
    finding = running.measured(claim, "quick", 1, lambda progress: None)
    verdict, each = judge_claim(claim, Evidence.of([finding]).numbers)
    assert verdict == "holds", each


# --- what is stored


@each_claim
def test_stored_results_were_judged_by_the_intervals_that_stand_in_the_claim(claim: Claim) -> None:
    for result in results.load(ROOT / results.FOLDER, claim.id).values():
        assert result.expected == claim.expected
        assert (result.verdict, result.verdicts) == judge_claim(claim, result.evidence.numbers)
        assert result.seeds == tuple(range(1, claim.seeds[result.size] + 1))
        assert list(result.evidence.numbers) == [quantity.name for quantity in claim.quantities]


def test_the_page_of_all_claims_is_up_to_date() -> None:
    """Run `python docs/generate_claims.py` after a claim was run or its text changed."""
    import runpy

    made = runpy.run_path(str(ROOT / "docs" / "generate_claims.py"))
    assert (ROOT / "docs" / "claims.md").read_text("utf8") == made["text"]()
    for claim in CLAIMS:
        found = results.load(ROOT / results.FOLDER, claim.id)
        if found:
            beside = ROOT / results.FOLDER / f"{claim.id}.md"
            assert beside.read_text("utf8") == page.page(claim, found), claim.id
            assert beside.with_suffix(".svg").is_file()


# --- the commands


def test_claims_are_listed_and_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    where = ["--out", str(tmp_path)]
    assert command(["claims", "list", "--json", *where]) == 0
    listed = json.loads(capsys.readouterr().out)["claims"]
    assert [one["id"] for one in listed] == [claim.id for claim in CLAIMS]
    assert {"id", "level", "statement", "misreading", "sources", "quantities", "verdicts"} <= listed[0].keys()
    assert command(["claims", "show", CLAIMS[0].id, "--zh", *where]) == 0
    assert CLAIMS[0].misreading.zh in capsys.readouterr().out
    assert command(["claims", "show", "derivative-product", *where]) == 2
    assert "did you mean 'derivative-products'" in capsys.readouterr().err


def test_a_claim_is_run_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command(["claims", "run", "derivative-products", "--quick", "--json", "--out", str(tmp_path)]) == 0
    said = json.loads(capsys.readouterr().out)
    stored = json.loads((tmp_path / "derivative-products.json").read_text())["quick"]
    assert said == {"claim": "derivative-products", **stored}
    assert said["verdict"] == "holds"
    assert {"commit", "libraries", "processor", "python", "ostinato"} <= said["environment"].keys()


def test_the_figure_of_a_claim_is_announced_before_it_is_drawn() -> None:
    one = toy(lambda size, seed, watch: Finding({"value": 1.0}, {"other": {}}))
    with pytest.raises(AssertionError, match="unknown figure"):
        running.measured(one, "quick", 1, lambda progress: None)
    with pytest.raises(AssertionError, match="other quantities"):
        running.measured(dataclasses.replace(one, quantities=one.quantities[:0] + CLAIMS[0].quantities), "quick", 1,
                         lambda progress: None)  # fmt: skip
