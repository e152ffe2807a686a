"""The lab in a real browser: one server and one Chromium for all tests. Skips where there is no Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
WIDE, PHONE = {"width": 1200, "height": 800}, {"width": 390, "height": 800}


class Watched:
    """A page of the lab; `faults` collects what went wrong in it, `asked` every address it asked for."""

    def __init__(self, page: Any, address: str):
        self.page, self.address = page, address
        self.faults: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: message.type == "error" and self.faults.append(message.text))
        page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        page.on("request", lambda request: self.asked.append(request.url))

    def goto(self, state: str) -> Any:
        """Open `#page?state` and wait until it is drawn."""
        name = state.strip("#").split("?")[0]
        self.page.goto("about:blank")
        self.page.goto(self.address + state)
        self.ready(name)
        return self.page

    def ready(self, name: str) -> None:
        """Wait until a page is drawn."""
        self.page.wait_for_selector(f"body[data-ready={name}]", timeout=15000)

    def check(self) -> None:
        """Nothing failed, and nothing outside was asked for."""
        assert not self.faults, self.faults
        kept = (self.address, "about:blank", "data:", "blob:", "file:")
        assert [url for url in self.asked if not url.startswith(kept)] == []


@pytest.fixture(scope="session")
def lab_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two small runs: an LSTM and a 3-gram. The lab sees what is put there later too."""
    from corpus import write
    from ostinato.cli.app import run as cli

    home = tmp_path_factory.mktemp("lab")
    common = ["--text", str(write(home / "text.txt")), "--data.tokeniser", "blank", "--data.min-count", "1", "-q"]
    small = ["--model.hidden", "8", "--train.epochs", "3", "--train.rows", "8", "--train.threads", "1"]
    for name, words in {
        "kn": ["--model.kind", "ngram", "--model.order", "3"],
        "lstm": ["--model.kind", "lstm", *small],
    }.items():
        assert cli(["train", "--run-dir", str(home / "runs" / name), *common, *words]) == 0
    return home / "runs"


@pytest.fixture(scope="session")
def lab_translators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small translators: one with attention and one without, of the same data, and one from Chinese."""
    import translation_toys as toys

    home = tmp_path_factory.mktemp("translators")
    german = toys.parallel(home, toys.sentences(120))
    chinese = toys.write(home / "zh.tsv", toys.columns(toys.chinese()))
    plans = {
        "attentive": toys.config(german, {"tokeniser": "word"}, epochs=4),
        "fixed": toys.config(german, {"tokeniser": "word"}, {"attention": "none"}, epochs=4),
        "from-chinese": toys.config(
            (chinese,), {"tokeniser": "char", "target_tokeniser": "blank"}, {"attention": "scaled-dot"}, epochs=4
        ),
    }
    for name, plan in plans.items():
        toys.trained(plan, home / "runs" / name)
    return home / "runs"


@pytest.fixture(scope="session")
def lab_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of word vectors: a run, and a file in word2vec's text format with Chinese words."""
    from corpus import write
    from ostinato.cli.app import run as cli

    home = tmp_path_factory.mktemp("words")
    options = ["--min-count", "1", "--dimensions", "12", "--epochs", "3", "--threads", "1", "-q"]
    text = str(write(home / "text.txt"))
    assert cli(["vectors", "train", "--text", text, "--run-dir", str(home / "sets" / "words"), *options]) == 0
    rows = {"猫": (1, 0, 0.1), "狗": (0.9, 0.1, 0), "看": (0, 1, 0.2), "吃": (0.1, 0.9, 0), "Haus": (0, 0, 1)}
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items()]
    (home / "sets" / "animals.vec").write_text(f"{len(rows)} 3\n{''.join(lines)}", "utf8")
    return home / "sets"


@pytest.fixture(scope="session")
def lab_server(lab_runs: Path, lab_translators: Path, lab_words: Path) -> Iterator[str]:
    """The address of a lab that shows `lab_runs`, `lab_translators` and `lab_words`."""
    folders = [str(lab_runs), str(lab_translators), str(lab_words)]
    words = [sys.executable, "-m", "ostinato", "lab", *folders, "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, or a skip where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'ostinato[browser]'")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any, lab_server: str) -> Iterator[Callable[..., Any]]:
    """A function that opens `#page?state`; whatever it opened is checked at the end for errors and outside requests.

    Options go to the browser: viewport=PHONE, color_scheme="dark", reduced_motion="reduce", locale="zh-CN".
    """
    made: list[tuple[Any, Watched]] = []

    def opened(state: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": WIDE, "locale": "en-GB", **options})
        watched = Watched(context.new_page(), lab_server)
        made.append((context, watched))
        return watched.goto(state)

    yield opened
    for context, watched in made:
        context.close()
        watched.check()


def arrays_at(address: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of an answer of the lab, and what it says about them."""
    with urllib.request.urlopen(address, timeout=60) as reply:
        return unpacked(reply.read())


def unpacked(body: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays in an answer's body, and what it says about them."""
    from safetensors.numpy import load

    header = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
    found: dict[str, NDArray[Any]] = load(body)
    return found, json.loads(header["__metadata__"]["about"])


def value_of(page: Any, selector: str) -> float:
    """The exact number behind what an element shows."""
    return float(page.locator(selector).get_attribute("data-value"))
