"""The pages where runs read a text: a model typed into, and inside the state. API values are the command line's."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus import lines
from lab_browser import WIDE, Watched, arrays_at
from ostinato.cli.app import run as cli
from ostinato.core.errors import ConfigError, DataError
from ostinato.lab import state as state_page
from ostinato.lab import typed as typed_page
from ostinato.lab.shelf import Shelf
from ostinato.tasks.language import inside
from ostinato.tasks.language.typed import LONGEST, expected, read_typed, sample
from ostinato.text.stream import encode

TEXT = "the dog likes a cat .\n\nthe 天 sees nothing ."
CHINESE = ["床前明月光，疑是地上霜。", "举头望明月，低头思故乡。", "白日依山尽，黄河入海流。"]


@pytest.fixture(scope="session")
def reader_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three small networks of characters that carry their state, and one of Chinese characters."""
    home = tmp_path_factory.mktemp("readers")
    (home / "text.txt").write_text("\n".join(lines(300)) + "\n", "utf8")
    (home / "zh.txt").write_text("\n".join(CHINESE * 60) + "\n", "utf8")
    common = ["--data.tokeniser", "char", "--data.regime", "stream", "--data.min-count", "1", "--model.embedding", "8"]
    small = ["--model.hidden", "6", "--train.epochs", "1", "--train.rows", "8", "--train.threads", "1", "-q"]
    for name, text, words in (
        ("chars-gru", "text", ["--model.kind", "gru"]),
        ("chars-lstm", "text", ["--model.kind", "lstm", "--model.layers", "2"]),
        ("chars-rnn", "text", ["--model.kind", "rnn"]),
        ("zh", "zh", ["--model.kind", "lstm"]),
    ):
        given = ["--text", str(home / f"{text}.txt"), "--run-dir", str(home / "runs" / name)]
        assert cli(["train", *given, *common, "--model.no-tied", *small, *words]) == 0
    return home / "runs"


@pytest.fixture(scope="session")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that no language model can be opened from."""
    home = tmp_path_factory.mktemp("strangers")
    for name, kind in (("classifier", "a sequence task"), ("vectors", "word vectors"), ("empty", "a language model")):
        (home / name).mkdir()
        (home / name / "config.toml").write_text('task = "classification"\n' if name == "classifier" else "")
        (home / name / "environment.json").write_text(json.dumps({"format": 1, "kind": kind}))
    (home / "words.txt").write_text("2 3\nthe 1 2 3\ndog 4 5 6\n")
    return home


@pytest.fixture(scope="session")
def shelf(lab_runs: Path, reader_runs: Path, strangers: Path) -> Shelf:
    return Shelf([lab_runs / "kn", lab_runs / "lstm", reader_runs, strangers])


@pytest.fixture
def page_of(browser: Any, shelf: Shelf) -> Iterator[Callable[..., Any]]:
    """A function that opens `#page?state` of a lab with all these runs."""
    words = [sys.executable, "-m", "ostinato", "lab", *map(str, shelf.given), "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        context = browser.new_context(viewport=WIDE, locale="en-GB")
        watched = Watched(context.new_page(), process.stdout.readline().strip())
        try:
            yield watched.goto
        finally:
            context.close()
            process.terminate()
    watched.check()


def said_by(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The JSON lines that a command prints."""
    capsys.readouterr()
    assert cli([*words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def where(shelf: Shelf, name: str) -> str:
    return str(shelf.path(name))


@pytest.mark.parametrize("name", ["kn", "lstm"])
def test_surprises_are_those_of_the_command_score(
    shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "typed").write_text(TEXT.replace("\n\n", "\n"))
    found = typed_page.reading(shelf, name, TEXT, 3)
    by_command = said_by(capsys, "score", where(shelf, name), str(tmp_path / "typed"), "--tokens")
    pairs = [pair for line in by_command for pair in line["tokens"]]
    np.testing.assert_allclose(found["nats"], [-value for _, value in pairs], rtol=0, atol=1e-6)
    pieces = ["\n" if piece == "</s>" else piece for piece, _ in pairs]
    assert [piece for place, piece in enumerate(found["pieces"]) if place not in found["unknown"]] == [
        piece for piece in pieces if piece != "<unk>"
    ]
    assert [found["pieces"][place] for place in found["unknown"]] == ["nothing"]
    assert found["score"]["nats"] == pytest.approx(sum(line["nats"] for line in by_command), rel=1e-6)


def test_one_line_of_a_model_that_carries_its_state_is_scored_as_by_score(
    shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "typed").write_text("the dog .")
    found = typed_page.reading(shelf, "chars-gru", "the dog .", 3)
    (line,) = said_by(capsys, "score", where(shelf, "chars-gru"), str(tmp_path / "typed"), "--tokens")
    np.testing.assert_allclose(found["nats"], [-value for _, value in line["tokens"]], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["kn", "lstm", "chars-gru", "chars-lstm", "zh"])
def test_totals_and_signatures_are_those_of_evaluate(
    shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "typed").write_text(TEXT)
    score = typed_page.reading(shelf, name, TEXT, 3)["score"]
    (wanted,) = said_by(capsys, "evaluate", where(shelf, name), str(tmp_path / "typed"))
    for key in ("signature", "count", "unknown", "per", "characters"):
        assert score[key] == wanted[key], key
    for key in ("nats", "perplexity", "bits", "bits_per_char"):
        assert score[key] == pytest.approx(wanted[key], rel=1e-5), key


@pytest.mark.parametrize("name", ["kn", "lstm", "chars-gru"])
@pytest.mark.parametrize("text", ["the dog", "the dog likes .\nthe", "the dog .\n", ""])
def test_what_comes_next_is_what_steps_say(shelf: Shelf, name: str, text: str) -> None:
    loaded = shelf.model(name)
    vocabulary, last = loaded.vocabulary, text.split("\n")[-1] if loaded.regime == "sentence" else text
    ids = [vocabulary.stop if piece == "</s>" else vocabulary.ids([piece])[0] for piece in loaded.pipeline.pieces(last)]
    state = loaded.model.init_state(1)
    for token in [vocabulary.start, *ids]:
        log_probs, state = loaded.model.step(state, np.array([token]))
    found = typed_page.reading(shelf, name, text, 4)["next"]
    assert [value for _, value in found] == pytest.approx(np.sort(np.exp(log_probs[0]))[::-1][:4], rel=1e-4)
    best = vocabulary.pieces[int(log_probs[0].argmax())]
    assert found[0][0] == ("\n" if best == "</s>" else best)


@pytest.mark.parametrize("name", ["kn", "lstm", "chars-gru"])
def test_what_was_expected_at_a_place_is_what_it_was_scored_by(shelf: Shelf, name: str) -> None:
    loaded = shelf.model(name)
    found = read_typed(loaded, TEXT)
    for place in range(len(found.ids)):
        log_probs = expected(loaded, found.ids, place)
        assert np.exp(log_probs.astype(np.float64)).sum() == pytest.approx(1, abs=1e-4)
        assert log_probs[found.ids[place]] == pytest.approx(found.log_probs[place], abs=1e-5)


def test_a_text_may_be_empty_or_end_with_its_line(shelf: Shelf) -> None:
    loaded = shelf.model("lstm")
    assert (read_typed(loaded, "").score, read_typed(loaded, "").place) == (None, 0)
    assert read_typed(loaded, " \n \n").pieces == ()
    one, two = read_typed(loaded, "the dog"), read_typed(loaded, "the dog\n")
    assert one.pieces == two.pieces == ("the", "dog", "</s>")
    assert (one.place, two.place) == (2, 3)
    with pytest.raises(ConfigError, match="longer than 10,000; score it from a file"):
        read_typed(loaded, "a" * (LONGEST + 1))


def test_the_sample_is_the_beginning_of_what_a_run_is_measured_on(shelf: Shelf) -> None:
    for name in ("lstm", "chars-gru"):
        text = sample(shelf.model(name), 60)
        assert 20 < len(text) <= 60
        assert set(text.split("\n")) <= {*lines(300), *lines(400)}
    assert set("".join(sample(shelf.model("zh"), 30).split("\n"))) <= set("".join(CHINESE))


def test_the_sample_has_only_lines_without_unknown_pieces(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = shelf.model("lstm")
    stream = encode([["zebra .", "the dog .", "a zebra", "the cat ."]], loaded.pipeline, loaded.vocabulary)
    monkeypatch.setattr("ostinato.tasks.language.typed.final_stream", lambda _: stream)
    assert sample(loaded, 100) == "the dog .\nthe cat ."


def test_runs_that_cannot_be_used_are_named_with_the_reason(shelf: Shelf, lab_runs: Path, tmp_path: Path) -> None:
    found = {name: typed_page.holding(shelf, name) for name in shelf.runs()}
    assert {name for name, about in found.items() if about["recurrent"]} == {
        "lstm", "chars-gru", "chars-lstm", "chars-rnn", "zh"
    }  # fmt: skip
    assert "is a run of a sequence task, not of a language model" in found["classifier"]["reason"]
    assert found["words.txt"]["reason"].endswith(
        "words.txt: word vectors, no language model; `ostinato vectors` asks them"
    )
    assert "word vectors, no language model" in found["vectors"]["reason"]
    assert "there is no trained model in this run" in found["empty"]["reason"]
    assert (found["kn"]["kind"], found["kn"]["recurrent"], found["kn"]["reason"]) == ("ngram", False, None)
    assert "not of a language model" in typed_page.reading(shelf, "classifier", "a", 3)["error"]
    reason = state_page.reaching(shelf, "kn", "kn", "the", 0)["error"]
    assert reason.endswith("name the run of a recurrent network, such as `ostinato train --model.kind lstm` makes")


def question(address: str, path: str, **query: Any) -> str:
    return f"{address}api/{path}?{urllib.parse.urlencode(query, doseq=True)}"


def test_long_chinese_text_fits_into_a_question(lab_server: str) -> None:
    text = "".join(CHINESE) * 111  # 3,996 characters, 36 kB in an address
    with urllib.request.urlopen(question(lab_server, "typed/read", run="lstm", text=text, top=3)) as reply:
        (found,) = json.load(reply)["runs"]
    assert found["pieces"] == [text, "\n"]


def test_a_token_has_its_rank_and_its_units(lab_server: str, lab_runs: Path) -> None:
    loaded = Shelf([lab_runs]).model("lstm")
    found = read_typed(loaded, TEXT)
    got, about = arrays_at(question(lab_server, "typed/at", run="lstm", text=TEXT, place=2, top=5))
    wanted = inside.look(loaded, found.ids)
    assert about["parts"] == list(wanted)
    for name, values in wanted.items():
        np.testing.assert_allclose(got[name], values[2:3], atol=1e-6)
    assert about["token"] == "likes"
    assert about["probability"] == pytest.approx(np.exp(found.log_probs[2]), rel=1e-4)
    assert about["rank"] == 1 + (expected(loaded, found.ids, 2) > found.log_probs[2] + 1e-5).sum()
    assert arrays_at(question(lab_server, "typed/at", run="kn", text=TEXT, place=2, top=5))[0] == {}


def test_units_over_a_text_come_with_what_they_follow(lab_server: str, lab_runs: Path) -> None:
    loaded = Shelf([lab_runs]).model("lstm")
    found = read_typed(loaded, TEXT)
    got, about = arrays_at(question(lab_server, "state/inside", run="lstm", text=TEXT, layer=9, part="forget"))
    units, features = inside.look(loaded, found.ids)["forget"], inside.text_features(loaded, found.pieces)
    np.testing.assert_allclose(got["values"], units.T, atol=1e-6)
    np.testing.assert_allclose(got["correlations"], inside.correlations(units, features), atol=1e-5)
    np.testing.assert_allclose(got["surprise"], -found.log_probs, atol=1e-5)
    assert (about["part"], about["layer"], about["layers"]) == ("forget", 0, 1)
    assert about["features"] == ["line", "quotes", "brackets", "length"]
    long, cut = arrays_at(
        question(lab_server, "state/inside", run="lstm", text="the dog .\n" * 200, layer=0, part="reset")
    )
    assert (long["values"].shape, cut["total"], cut["part"]) == ((8, state_page.MOST), 800, "hidden")


def test_gradients_are_compared_on_the_same_tokens_only(shelf: Shelf) -> None:
    text = "the dog likes\na cat ."
    for name in ("chars-gru", "chars-lstm", "chars-rnn"):
        found = state_page.reaching(shelf, name, "chars-gru", text, 15)
        loaded = shelf.model(name)
        wanted = inside.gradient_norms(loaded, read_typed(loaded, text).ids, 15)
        assert found["norms"] == wanted.tolist()
        assert len(wanted) == 15
    assert state_page.reaching(shelf, "lstm", "chars-gru", text, 15)["error"] == (
        "lstm cuts the text into other tokens than chars-gru"
    )
    with pytest.raises(DataError, match="the text is empty"):
        state_page.inside(shelf, "zh", "", 0, "hidden")


def test_typing_updates_every_run_and_asks_once_a_pause(page_of: Any, shelf: Shelf) -> None:
    page = page_of(f"#typed?runs=kn|lstm|zh&text={urllib.parse.quote('the dog')}")
    asked: list[str] = []
    page.on("request", lambda request: "typed/read" in request.url and asked.append(request.url))
    totals = page.locator("output[data-value]")

    def shown(text: str) -> None:
        for place, name in enumerate(("kn", "lstm", "zh")):
            wanted = typed_page.reading(shelf, name, text, 3)["score"]["perplexity"]
            page.wait_for_function(
                "([place, wanted]) => Math.abs(document.querySelectorAll('output[data-value]')[place]?.dataset.value"
                " / wanted - 1) < 1e-4",
                arg=[place, wanted],
            )

    shown("the dog")
    field = page.get_by_role("textbox", name="text")
    field.press("End")
    field.press_sequentially(" likes a cat", delay=15)
    shown("the dog likes a cat")
    assert totals.count() == 3
    assert len(asked) < 6  # of twelve keys
    assert page.get_by_text("The signatures differ").is_visible()
    word = page.get_by_role("listbox", name="kn", exact=True).get_by_role("option").nth(1)
    bits = -read_typed(shelf.model("kn"), "the dog likes a cat").log_probs[1] / np.log(2)
    assert word.get_attribute("aria-label").startswith(f"dog, bits {bits:.3g}")
    page.get_by_role("combobox", name="surprise in").select_option("nats")
    page.get_by_role("option", name="dog, nats").first.wait_for()
    (best, chance), *_ = typed_page.reading(shelf, "kn", "the dog likes a cat", 3)["next"]
    assert page.get_by_role("img", name=f"kn. {best}: {chance:.3g}").is_visible()


def test_an_answer_that_is_out_of_date_is_dropped(page_of: Any) -> None:
    page = page_of("#typed?runs=kn&text=the+dog")
    page.get_by_role("option", name="dog, bits").wait_for()
    held: list[Any] = []
    page.route("**/typed/read?*text=late*", lambda route: held.append(route))
    field = page.get_by_role("textbox", name="text")
    with page.expect_request("**/typed/read?*text=late*"):
        field.fill("late")
    field.fill("the cat")
    page.get_by_role("option", name="cat, bits").wait_for()
    with page.expect_response("**/typed/read?*text=late*"):
        held[0].continue_()
    page.wait_for_timeout(200)
    assert page.get_by_role("option", name="cat, bits").is_visible()


def test_a_saved_page_keeps_the_token_that_was_picked(page_of: Any, browser: Any, tmp_path: Path) -> None:
    page = page_of("#typed?runs=lstm&text=the+dog&one=lstm&at=1")
    page.get_by_text("dog in lstm: probability").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as one file").click()
    download.value.save_as(tmp_path / "page.html")
    there = browser.new_page(locale="en-GB")
    there.goto((tmp_path / "page.html").as_uri())
    there.get_by_text("dog in lstm: probability").wait_for()
    assert there.get_by_role("img", name="State and gates as it was read").is_visible()
    there.close()


def test_a_token_is_picked_by_keyboard_and_kept_in_the_address(page_of: Any) -> None:
    page = page_of(f"#typed?runs=lstm&text={urllib.parse.quote('the dog likes 天')}")
    first = page.get_by_role("option", name="the, bits")
    first.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("dog in lstm: probability").wait_for()
    page.keyboard.press("ArrowRight")  # the focus has stayed in the text
    page.get_by_text("likes in lstm: probability").wait_for()
    page.wait_for_url("**at=2**")
    page.reload()
    page.get_by_text("likes in lstm: probability").wait_for()
    page.get_by_role("figure").filter(has_text="State and gates as it was read").get_by_text("Table").click()
    rows = page.get_by_role("region", name="Table: State and gates as it was read").get_by_role("row")
    rows.nth(6).wait_for()
    names = [row.split("\t")[0] for row in rows.all_inner_texts()[1:]]
    assert names == ["hidden state", "cell", "input gate", "forget gate", "candidate", "output gate"]
    page.get_by_role("link", name="See all units").click()
    page.get_by_role("heading", level=1, name="Inside the state").wait_for()
    assert page.get_by_role("textbox", name="text").input_value() == "the dog likes 天"


def test_units_are_sorted_by_what_they_follow_and_gradients_are_pythons(page_of: Any, shelf: Shelf) -> None:
    text = 'the dog "likes" a cat .\nthe fish'
    page = page_of(f"#state?run=chars-lstm&layer=1&sort=line&against=chars-gru&text={urllib.parse.quote(text)}&at=20")
    loaded = shelf.model("chars-lstm")
    found = read_typed(loaded, text)
    r = inside.correlations(inside.look(loaded, found.ids, 1)["hidden"], inside.text_features(loaded, found.pieces))[0]
    top = int(np.abs(r).argmax())
    page.wait_for_selector(f".said[data-unit='{top}']")
    assert f"r = {r[top]:.2g}".replace("-", "−") in page.locator(".said").inner_text()
    page.get_by_role("combobox", name="show").select_option("cell")
    page.get_by_role("listbox").get_by_role("option", name=f"cell, unit {top}:").first.wait_for()
    figure = page.get_by_role("figure").filter(has_text="Gradient of the loss")
    figure.get_by_text("Table").click()
    rows = figure.get_by_role("row")
    rows.nth(20).wait_for()
    cells = [row.split("\t") for row in rows.all_inner_texts()]
    assert cells[0] == ["steps back k", "chars-lstm", "chars-gru"]
    for column, name in ((1, "chars-lstm"), (2, "chars-gru")):
        wanted = inside.gradient_norms(shelf.model(name), read_typed(shelf.model(name), text).ids, 20)
        got = [float(row[column].replace("\u00a0×\u00a010", "e").translate(RAISED)) for row in cells[1:]]
        assert got == pytest.approx(wanted, rel=2e-3)
    heat = page.get_by_role("img", name="Units over the text")
    heat.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**unit=**")
    assert page.locator(".said").get_attribute("data-unit") != str(top)


RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")


def test_what_cannot_be_used_is_named_on_the_page(page_of: Any) -> None:
    page = page_of("#state")
    page.get_by_text("Not usable on this page: kn, classifier, empty, vectors, words.txt").click()
    assert page.get_by_text("kn: a model of kind ngram has no hidden units to show").is_visible()
    assert page.get_by_text("is a run of a sequence task, not of a language model").is_visible()


ADVICE = [("typed", "ostinato demo"), ("state", "ostinato train --model.kind lstm")]


@pytest.mark.parametrize(("name", "advice"), ADVICE)
def test_without_runs_a_page_says_how_to_train_one(browser: Any, name: str, advice: str) -> None:
    words = [sys.executable, "-m", "ostinato", "lab", "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page = browser.new_page(locale="en-GB")
        page.goto(process.stdout.readline().strip() + f"#{name}")
        assert advice in page.get_by_role("alert").inner_text()
        page.close()
        process.terminate()
