"""The page of claims says what is stored."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ostinato.claims import results
from ostinato.claims.claim import all_claims, in_order
from ostinato.claims.verdict import VERDICTS
from ostinato.core.errors import ConfigError
from ostinato.lab.claims import listed, look

STORED = Path(__file__).parent.parent / results.FOLDER


def test_every_claim_is_listed_with_its_stored_verdicts() -> None:
    found = json.loads(bytes(listed().body))["claims"]
    assert [one["id"] for one in found] == [claim.id for claim in in_order()]
    for one in found:
        stored = results.load(STORED, one["id"])
        assert {size: verdict["name"] for size, verdict in one["verdicts"].items()} == {
            size: result.verdict for size, result in stored.items()
        }


def test_a_claim_comes_with_every_number_and_curve() -> None:
    claim = all_claims()["derivative-products"]
    found = json.loads(bytes(look(claim.id).body))
    for size, result in results.load(STORED, claim.id).items():
        run = found["runs"][size]
        assert [one["values"] for one in run["quantities"]] == list(map(list, result.evidence.numbers.values()))
        assert sum(len(figure["curves"]) for figure in run["figures"]) == sum(map(len, result.evidence.curves.values()))
    with pytest.raises(ConfigError, match="did you mean 'derivative-products'"):
        look("derivative-product")


def test_a_claim_is_chosen_by_keyboard_and_has_the_stored_numbers(open_page: Any) -> None:
    names = [claim.id for claim in in_order()]
    place = names.index("clipping")
    page = open_page(f"#claims?claim={names[place - 1] if place else names[1]}")
    page.get_by_role("combobox", name="claim", exact=True).focus()
    page.keyboard.press("ArrowDown" if place else "ArrowUp")
    page.get_by_role("heading", level=2, name=all_claims()["clipping"].statement.en).wait_for()
    page.wait_for_url("**claim=clipping**")
    result = results.load(STORED, "clipping")["full"]
    cells = page.get_by_role("region", name="What was measured").locator("[data-value]")
    means = [sum(values) / len(values) for values in result.evidence.numbers.values()]
    means = [value for value in means if math.isfinite(value)]
    assert len(means) > 3
    assert [float(cell.get_attribute("data-value")) for cell in cells.all()] == pytest.approx(means, rel=1e-9)


def test_a_claim_can_be_chosen_and_read_in_chinese(open_page: Any) -> None:
    claim = in_order()[-1]
    page = open_page(f"#claims?claim={claim.id}&lang=zh")
    page.get_by_role("heading", level=2, name=claim.statement.zh).wait_for()
    assert page.get_by_text(claim.misreading.zh).is_visible()
    result = results.best(results.load(STORED, claim.id))
    if result is not None:
        assert page.get_by_text(VERDICTS[result.verdict].zh).first.is_visible()
    page.get_by_role("button", name="derivative-products", exact=True).click()
    page.get_by_role("heading", level=2, name=all_claims()["derivative-products"].statement.zh).wait_for()
    assert page.evaluate("location.hash").startswith("#claims?")
