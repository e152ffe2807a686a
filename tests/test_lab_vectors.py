"""The page of word vectors: its numbers against `ostinato vectors`, and what it says where there is no vector."""

from __future__ import annotations

import json
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest

from lab_browser import PHONE, arrays_at, unpacked
from ostinato.cli.app import run as cli
from ostinato.embed.projection import Projection
from ostinato.embed.vectors import Vectors
from ostinato.lab import vectors as lab
from ostinato.lab.shelf import Shelf, kind_of
from ostinato.lab.vectors import COMMON, SAMPLE, sample

BOTH = [("which", "input"), ("which", "output")]


def asked(server: str, what: str, *parameters: tuple[str, Any]) -> Any:
    """An answer of the page."""
    with urlopen(f"{server}api/vectors/{what}?{urlencode(parameters)}", timeout=60) as reply:
        return json.loads(reply.read())


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command of `ostinato vectors` prints as JSON."""
    capsys.readouterr()
    assert cli(["vectors", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def words(lab_words: Path) -> list[str]:
    """Words of the run, the most frequent first."""
    return list(Vectors.load(lab_words / "words" / "vectors").words)


@pytest.mark.parametrize("restrict", [0, 7])
def test_neighbours_are_those_of_the_command(
    lab_server: str, lab_words: Path, words: list[str], capsys: Any, restrict: int
) -> None:
    limit = ["--restrict", str(restrict)] if restrict else []
    parameters = ("name", "words"), ("word", words[3]), ("number", 5), ("restrict", restrict)
    found = {one["which"]: one["found"] for one in asked(lab_server, "neighbors", *parameters, *BOTH)["answers"]}
    for which in ("input", "output"):
        options = ["-k", "5", "--which", which, *limit]
        wanted = printed(capsys, "neighbors", str(lab_words / "words"), words[3], *options)["queries"][0]["neighbors"]
        assert [word for word, _ in found[which]] == [one["word"] for one in wanted]
        assert [cosine for _, cosine in found[which]] == pytest.approx([one["cosine"] for one in wanted], abs=1e-6)
    read, predicted = (Vectors.load(lab_words / "words" / "vectors", which) for which in ("input", "output"))
    x, rows = read.vector(words[3]), np.array(predicted.array[: restrict or None])
    cosines = rows @ x / np.linalg.norm(rows, axis=1) / np.linalg.norm(x)
    best = np.argsort(-cosines)[:5]
    assert [word for word, _ in found["beside"]] == [words[place] for place in best]
    assert [cosine for _, cosine in found["beside"]] == pytest.approx(cosines[best].tolist(), abs=1e-5)


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
def test_analogies_are_those_of_the_command(
    lab_server: str, lab_words: Path, words: list[str], capsys: Any, method: str
) -> None:
    question = dict(zip("abc", words[2:5], strict=True))
    found = asked(lab_server, "analogy", ("name", "words"), *question.items(), ("method", method), *BOTH)["answers"]
    for one in found:
        options = ["--method", method, "--which", one["which"], "-k", "10"]
        wanted = printed(capsys, "analogy", str(lab_words / "words"), *question.values(), *options)["answers"]
        assert [word for word, _ in one["found"]] == [answer["word"] for answer in wanted]
        assert [score for _, score in one["found"]] == pytest.approx([answer["score"] for answer in wanted], rel=1e-5)


def test_similarities_are_those_of_the_command(lab_server: str, lab_words: Path, words: list[str], capsys: Any) -> None:
    pairs = [("left", words[1]), ("right", words[2]), ("left", words[3]), ("right", "hte")]
    first, second = asked(lab_server, "similarity", ("name", "words"), *pairs, *BOTH)["pairs"]
    for one in first["cosines"]:
        path = str(lab_words / "words")
        wanted = printed(capsys, "similarity", path, words[1], words[2], "--which", one["which"])["cosine"]
        assert one["cosine"] == pytest.approx(wanted, abs=1e-6)
    assert all("'hte' is not among the" in one["error"] for one in second["cosines"])


def test_the_map_is_that_of_the_command(lab_server: str, lab_words: Path, words: list[str], capsys: Any) -> None:
    chosen = words[:6]
    query = urlencode([("name", "words"), *BOTH, *(("word", word) for word in [*chosen, "qwxyz", chosen[0]])])
    arrays, about = arrays_at(f"{lab_server}api/vectors/map?{query}")
    assert about["words"] == chosen
    assert len(about["unknown"]) == 1
    for which in ("input", "output"):
        wanted = printed(capsys, "map", str(lab_words / "words"), *chosen, "--which", which)
        assert about["variance"][which] == pytest.approx(wanted["variance"], rel=1e-6)
        points = [[one["x"], one["y"]] for one in wanted["points"]]
        np.testing.assert_allclose(arrays[f"points/{which}"], points, rtol=0, atol=1e-9)
        vectors = Vectors.load(lab_words / "words" / "vectors", which)
        for row, left in enumerate(chosen):
            across = vectors.similarity([(left, right) for right in chosen])
            np.testing.assert_allclose(arrays[f"cosines/{which}"][row], across, atol=1e-6)


def test_words_that_lie_together_are_written_on_different_sides() -> None:
    made = Projection(("war", "wars", "peace"), np.array([[0.5, 0.5], [0.5, 0.5], [-1.0, -1.0]]), (0.9, 0.1))
    found = lab.sides(made).tolist()
    assert found[0] == [1, 0]
    assert found[1] != found[0]
    assert found[2] == [1, 0]


def test_of_many_words_the_first_are_drawn_and_the_rest_counted(
    lab_words: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "MAPPED", 5)
    monkeypatch.setattr(lab, "COMPARED", 3)
    body = bytes(lab.mapped(Shelf([lab_words]), "words", words[:8], ["input"]).body)
    arrays, about = unpacked(body)
    assert (about["words"], about["total"], about["compared"]) == (words[:5], 8, 3)
    assert arrays["points/input"].shape == (5, 2)
    assert arrays["cosines/input"].shape == (3, 3)


def test_a_file_has_one_matrix_and_a_run_both(lab_server: str, lab_words: Path) -> None:
    found = asked(lab_server, "sets")
    assert found["sets"] == [
        {"name": "animals.vec", "matrices": ["input"]},
        {"name": "words", "matrices": ["input", "output", "mean"]},
    ]
    assert {"name": "attentive", "kind": "translation"} in found["others"]
    assert asked(lab_server, "open", ("name", "animals.vec"))["words"] == 5
    near = asked(lab_server, "neighbors", ("name", "animals.vec"), ("word", "猫"), ("which", "input"))["answers"][0]
    assert near["found"][0][0] == "狗"
    assert near["found"][0][1] == pytest.approx(0.9 / np.sqrt(1.01 * 0.82), abs=1e-6)
    wrong = asked(lab_server, "neighbors", ("name", "animals.vec"), ("word", "haus"), ("which", "input"))["answers"][0]
    assert wrong["error"] == "'haus' is not among the 5 words of these vectors; did you mean 'Haus'?"
    for question in ("open?name=attentive", "map?name=words&which=input&word=qwxyz"):
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{lab_server}api/vectors/{question}")
        assert refused.value.code == 409
        assert json.loads(refused.value.read())["error"]


def test_a_folder_of_vectors_opens_alone(lab_words: Path, words: list[str]) -> None:
    from ostinato.lab.runs import describe

    shelf = Shelf([lab_words / "words" / "vectors"])
    assert shelf.kinds() == {"vectors": "vectors"}
    assert lab.opened(shelf, "vectors", "output").words == tuple(words)
    assert lab.opened(shelf, "vectors") is lab.opened(shelf, "vectors")
    assert describe(shelf, "vectors")["state"] == "made"


def test_a_run_that_has_no_vectors_yet_is_named_as_unfinished(lab_words: Path, tmp_path: Path) -> None:
    shutil.copytree(lab_words / "words", tmp_path / "going", ignore=shutil.ignore_patterns("vectors"))
    assert kind_of(tmp_path / "going") == "vectors"
    assert json.loads(bytes(lab.sets(Shelf([tmp_path])).body)) == {
        "sets": [],
        "others": [{"name": "going", "kind": "unfinished"}],
    }


def test_the_first_words_shown_are_frequent_words_made_of_letters() -> None:
    many = [f"{'w' * (1 + place % 7)}{chr(97 + place % 26)}{'x' * (place // 26)}" for place in range(300)]
    assert sample([*many, "."]) == many[COMMON : COMMON + SAMPLE]
    assert sample([",", "猫", "狗"]) == ["猫", "狗"]
    assert sample(["1", "2"]) == ["1", "2"]


def test_the_page_shows_the_numbers_and_keeps_its_state(open_page: Any, lab_server: str, words: list[str]) -> None:
    pairs = f"{words[1]} {words[2]}\n{words[3]} hte"
    state = {"of": "words", "word": words[3], "number": 5, "pairs": pairs, "words": " ".join(words[:6])}
    page = open_page("#vectors?" + urlencode({**state, **dict(zip("abc", words[2:5], strict=True))}))
    parameters = ("name", "words"), ("word", words[3]), ("number", 5)
    for one in asked(lab_server, "neighbors", *parameters, *BOTH)["answers"]:
        title = {"input": "input vectors", "output": "output vectors", "beside": "input against output"}[one["which"]]
        chart = page.get_by_role("figure").filter(has_text=f"Nearest words: {title}")
        chart.get_by_text("Table").click()
        chart.get_by_role("row").nth(5).wait_for()
        rows = [row.split("\t") for row in chart.get_by_role("row").all_inner_texts()[1:]]
        assert [word for word, _ in rows] == [word for word, _ in one["found"]]
        assert [float(value.replace("−", "-")) for _, value in rows] == pytest.approx(
            [cosine for _, cosine in one["found"]], rel=1e-3
        )
    table = page.get_by_role("region", name="Similarity of pairs")
    wanted = asked(lab_server, "similarity", ("name", "words"), ("left", words[1]), ("right", words[2]), *BOTH)
    shown = table.locator("tbody tr").first.locator("[data-value]")
    assert [float(shown.nth(place).get_attribute("data-value")) for place in (0, 1)] == [
        one["cosine"] for one in wanted["pairs"][0]["cosines"]
    ]
    assert page.get_by_text("'hte' is not among the").is_visible()
    matrix = page.get_by_role("img", name="Cosine of every two words: input vectors")
    matrix.focus()
    page.keyboard.press("Home")
    assert page.locator(".tip").inner_text().splitlines() == [f"{words[0]} · {words[0]}", "1"]
    page.get_by_role("img", name="Map: input vectors").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".tip").inner_text().splitlines()[1].split(":")[0] in words[:6]
    page.get_by_role("checkbox", name="output vectors").uncheck()
    page.get_by_role("figure").filter(has_text="Nearest words: output vectors").wait_for(state="hidden")
    page.wait_for_url("**which=input**")


def test_chinese_words_of_a_file_can_be_asked_on_a_phone(open_page: Any) -> None:
    page = open_page("#vectors?of=animals.vec&lang=zh", viewport=PHONE, color_scheme="dark")
    page.get_by_role("textbox", name="词", exact=True).first.fill("看")
    page.locator("figure", has_text="最近的词：输入向量").locator(".point", has_text="吃").wait_for()
    page.get_by_role("textbox", name="词", exact=True).last.fill("吃、狗，猫 看")
    page.wait_for_function("() => [...document.querySelectorAll('.matrix .down span')].map((node) => node.textContent)"
                           ".join('') === '吃狗猫看'")  # fmt: skip
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_words_on_a_map_do_not_cover_one_another_on_a_phone(open_page: Any) -> None:
    page = open_page("#vectors?of=words", viewport=PHONE)
    page.locator("figure", has_text="Map").locator("text.point").nth(10).wait_for()
    boxes = page.evaluate(
        """() => [...document.querySelectorAll("figure")].filter(({ textContent }) => textContent.startsWith("Map"))
          .map((map) => [...map.querySelectorAll("text.point")].map((word) => word.getBoundingClientRect().toJSON()))"""
    )
    assert len(boxes[0]) > 10
    for words in boxes:
        for one, other in combinations(words, 2):
            across = min(one["right"], other["right"]) - max(one["left"], other["left"])
            down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
            assert across < 2 or down < 6  # a line is higher than its letters
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_large_vectors_do_not_keep_the_page_waiting(open_page: Any) -> None:
    page = open_page("#gradient-flow")
    held: list[Any] = []
    page.route("**/api/vectors/open*", lambda route: held.append(route))
    page.get_by_role("link", name="Word vectors").click()
    page.get_by_text("opening animals.vec …").wait_for()
    assert page.get_by_role("heading", name="Neighbours").is_visible()
    assert page.locator("body").get_attribute("data-ready") == "vectors"
    held[0].continue_()
    page.get_by_text("5 words, 3 dimensions.").wait_for()


def test_without_vectors_the_page_says_how_to_train_some(browser: Any, lab_runs: Path) -> None:
    import subprocess
    import sys

    words = [sys.executable, "-m", "ostinato", "lab", str(lab_runs / "kn"), "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page = browser.new_page(locale="en-GB")
        page.goto(process.stdout.readline().strip() + "#vectors")
        page.get_by_text("ostinato vectors train --text speeches.txt").wait_for()
        assert page.get_by_text("kn (a language model)").is_visible()
        page.close()
        process.terminate()
