"""The page of attention: its numbers against `ostinato predict`, and what it says of runs that have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest

from lab_browser import PHONE, arrays_at
from ostinato.cli.app import run as cli
from ostinato.lab.shelf import DAMAGED, LANGUAGE, VECTORS, Shelf, kind_of

GERMAN, CHINESE = "the red dog sees a small house!", "这只猫看那只鸟。"


def predicted(run: Path, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What the command answers to a text with a beam of 4."""
    file = tmp_path / "in.txt"
    file.write_text(text + "\n", "utf8")
    capsys.readouterr()
    assert cli(["predict", str(run), str(file), "--json", "--beam", "4", "--nbest", "4", *words]) == 0
    return json.loads(capsys.readouterr().out)


def translated(server: str, text: str, *runs: str, beam: int = 4) -> tuple[dict[str, Any], Any]:
    """What the page is sent."""
    query = urlencode([("text", text), ("beam", beam), *(("run", run) for run in runs)])
    arrays, about = arrays_at(f"{server}api/attention/translate?{query}")
    return arrays, about["runs"]


@pytest.mark.parametrize(("name", "text"), [("attentive", GERMAN), ("from-chinese", CHINESE)])
def test_hypotheses_and_weights_are_those_of_predict(
    lab_server: str, lab_translators: Path, tmp_path: Path, capsys: Any, name: str, text: str
) -> None:
    wanted = predicted(lab_translators / name, text, tmp_path, capsys, "--align")["nbest"]
    arrays, (found,) = translated(lab_server, text, name)
    assert len(wanted) > 1
    assert [one["text"] for one in found["hypotheses"]] == [one["answer"] for one in wanted]
    np.testing.assert_allclose(
        [one["log_prob"] for one in found["hypotheses"]], [one["log_prob"] for one in wanted], atol=2e-5
    )
    for rank, one in enumerate(wanted):
        alignment = one["alignment"]
        assert found["hypotheses"][rank]["source"] == alignment["source"]
        assert found["hypotheses"][rank]["target"] == alignment["target"]
        np.testing.assert_allclose(arrays[f"0/{rank}"], alignment["weights"], atol=1e-4)
        np.testing.assert_allclose(arrays[f"0/{rank}"].sum(axis=1), 1, atol=1e-5)
    assert "".join(wanted[0]["alignment"]["source"]) == text.replace(" ", "")


def test_a_run_without_attention_has_hypotheses_and_no_weights(
    lab_server: str, lab_translators: Path, tmp_path: Path, capsys: Any
) -> None:
    wanted = predicted(lab_translators / "fixed", GERMAN, tmp_path, capsys)["nbest"]
    arrays, (with_one, fixed) = translated(lab_server, GERMAN, "attentive", "fixed")
    assert (with_one["attention"], fixed["attention"]) == ("additive", "none")
    assert [one["text"] for one in fixed["hypotheses"]] == [one["answer"] for one in wanted]
    assert arrays
    assert all(name.startswith("0/") for name in arrays)


def test_a_run_that_cannot_translate_says_why_and_hides_no_other(lab_server: str) -> None:
    arrays, (language, none, fine) = translated(lab_server, GERMAN, "kn", "atentive", "attentive")
    assert "is a run of a language model, not of a sequence task" in language["error"]
    assert "did you mean 'attentive'?" in none["error"]
    assert "error" not in fine
    assert "2/0" in arrays
    _, (long,) = translated(lab_server, "the dog " * 300, "attentive")
    assert "600 pieces, but this run has learnt from sources of up to 200" in long["error"]
    assert translated(lab_server, "  ", "attentive")[1][0]["hypotheses"] == []


def test_only_translators_are_offered_and_others_are_named(lab_server: str, lab_runs: Path) -> None:
    with urlopen(lab_server + "api/attention/runs") as reply:
        found = json.loads(reply.read())
    offered = {run["name"]: run["attention"] for run in found["runs"]}
    assert offered == {"attentive": "additive", "fixed": "none", "from-chinese": "scaled-dot"}
    assert {"name": "kn", "kind": "language"} in found["others"]
    assert kind_of(lab_runs / "lstm") == "language"


def test_every_kind_of_run_has_a_name() -> None:
    from ostinato.lab.bundle import TEXTS
    from ostinato.tasks.task import NAMES

    texts = json.loads((TEXTS / "en.json").read_text("utf8"))["common"]
    for kind in (*NAMES, LANGUAGE, VECTORS, DAMAGED, "unfinished"):
        assert f"kind_{kind}" in texts


def test_what_cannot_be_read_is_named_as_damaged(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.toml").write_text("[")
    assert Shelf([tmp_path]).kinds() == {"broken": "damaged"}


def test_the_page_shows_the_numbers_and_keeps_its_state(open_page: Any, lab_server: str) -> None:
    page = open_page("#attention?" + urlencode({"text": GERMAN, "beam": 4, "pick": 2, "runs": "attentive|fixed"}))
    arrays, (found, _) = translated(lab_server, GERMAN, "attentive", "fixed")
    section = page.get_by_role("region", name="attentive", exact=True)
    table = section.get_by_role("region", name="Hypotheses of attentive")
    table.get_by_role("row").nth(len(found["hypotheses"])).wait_for()
    rows = table.get_by_role("row").all_inner_texts()[1:]
    assert [row.split("\t")[1] for row in rows] == [one["text"] for one in found["hypotheses"]]
    second = found["hypotheses"][1]
    assert float(table.locator("tr[aria-current] [data-value]").get_attribute("data-value")) == second["log_prob"]
    assert section.locator(".said").inner_text() == second["text"]
    assert section.locator(".across span").all_inner_texts() == second["source"]
    assert section.locator(".down span").all_inner_texts() == second["target"]
    canvas = section.get_by_role("img", name="What each word of the answer looked at")
    strongest = arrays["0/1"].argmax(axis=1)
    pairs = [f"{word}: {second['source'][place]} " for word, place in zip(second["target"], strongest, strict=True)]
    assert all(pair in canvas.get_attribute("aria-label") for pair in pairs)
    canvas.focus()
    page.keyboard.press("ArrowRight")
    words, weight = page.locator(".tip").inner_text().splitlines()
    assert words == f"{second['target'][0]} · {second['source'][1]}"
    assert float(weight.replace(" × 10⁻", "e-").replace("⁴", "4")) == pytest.approx(arrays["0/1"][0, 1], rel=6e-3)
    fixed = page.get_by_role("region", name="fixed", exact=True)
    assert "This run has no attention" in fixed.inner_text()
    assert not fixed.get_by_role("img").count()
    page.get_by_role("slider", name="hypothesis shown").press("ArrowLeft")
    page.wait_for_function("() => !location.hash.includes('pick')")
    assert section.locator(".said").inner_text() == found["hypotheses"][0]["text"]


def test_without_a_choice_the_runs_of_the_same_data_answer_the_first_example(open_page: Any) -> None:
    page = open_page("#attention")
    page.locator("section[aria-label=fixed] tbody tr").first.wait_for()
    assert page.locator(".pair > section").evaluate_all("nodes => nodes.map((node) => node.ariaLabel)") == [
        "attentive",
        "fixed",
    ]
    examples = page.get_by_role("combobox", name="or an example")
    assert examples.locator("option").count() == 12
    assert "12 of" in page.locator("#offered").inner_text()
    examples.select_option(index=3)
    page.wait_for_url("**text=**")


def test_chinese_can_be_typed_on_a_chinese_page(open_page: Any, lab_server: str) -> None:
    page = open_page("#attention?runs=from-chinese&lang=zh", viewport=PHONE, color_scheme="dark")
    page.get_by_role("textbox", name="句子").fill(CHINESE)
    page.get_by_role("combobox").last.wait_for()
    page.wait_for_function("(text) => [...document.querySelectorAll('.across span')].map((node) => node.textContent)"
                           ".join('') === text", arg=CHINESE)  # fmt: skip
    _, (found,) = translated(lab_server, CHINESE, "from-chinese", beam=5)
    assert page.locator(".said").inner_text() == found["hypotheses"][0]["text"]
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_a_run_of_another_kind_is_named_with_the_reason(open_page: Any) -> None:
    page = open_page("#attention?runs=lstm")
    page.locator("section[aria-label=lstm] .note").wait_for()
    assert "is a run of a language model" in page.locator("section[aria-label=lstm]").inner_text()
    assert "kn (a language model)" in page.locator(".controls").inner_text()


def test_without_translators_the_page_says_how_to_train_one(browser: Any, lab_runs: Path) -> None:
    import subprocess
    import sys

    words = [sys.executable, "-m", "ostinato", "lab", str(lab_runs), "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page = browser.new_page(locale="en-GB")
        page.goto(process.stdout.readline().strip() + "#attention")
        page.get_by_text("ostinato train configs/translation.toml").wait_for()
        assert page.get_by_text("kn (a language model)").is_visible()
        page.close()
        process.terminate()
