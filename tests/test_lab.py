"""The lab's server: who may ask, what it sends, what it shows; and the rules its files keep."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ostinato.cli.app import run as cli
from ostinato.core.errors import ConfigError
from ostinato.lab.answers import answer, arrays
from ostinato.lab.bundle import STATIC, TEXTS, bundle, inert
from ostinato.lab.pages import PAGES
from ostinato.lab.shelf import Shelf

ABOUT = {"version": "1", "pages": [{"name": "gradient-flow", "needs_runs": False}]}


def ask(address: str, **headers: str) -> tuple[int, Any, bytes]:
    """Status, headers and body of an answer, whatever the status."""
    try:
        reply = urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20)
    except urllib.error.HTTPError as fault:
        reply = fault
    with reply:
        return reply.status, reply.headers, reply.read()


def test_every_answer_forbids_what_comes_from_outside(lab_server: str) -> None:
    for path in ("", "static/frame.js", "i18n/en.json", "api/shelf", "bundle.html", "nothing-here"):
        _, headers, _ = ask(lab_server + path)
        assert headers["content-security-policy"].startswith("default-src 'self'; "), path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["access-control-allow-origin"] is None


def test_another_name_does_not_lead_here(lab_server: str) -> None:
    assert ask(lab_server, Host="evil.example")[0] == 400
    assert ask(lab_server, Host="localhost:1")[0] == 200


def test_files_beside_the_static_ones_cannot_be_read(lab_server: str) -> None:
    for path in ("static/../server.py", "static/%2e%2e/server.py", "i18n/..%2fserver.py"):
        assert ask(lab_server + path)[0] == 404


def test_wrong_questions_are_answered_with_what_is_wrong(lab_server: str) -> None:
    status, _, body = ask(lab_server + "api/gradient-flow/matrix?size=1000&radius=1&steps=5&scale=1")
    assert status == 400
    assert json.loads(body)["error"] == "size: Input should be less than or equal to 64, got '1000'"


def test_the_shelf_names_the_runs_and_sees_new_ones(tmp_path: Path, lab_runs: Path) -> None:
    assert list(Shelf([lab_runs]).runs()) == ["kn", "lstm"]
    assert list(Shelf([lab_runs / "lstm"]).runs()) == ["lstm"]
    for place in ("a/run", "b/run"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "config.toml").touch()
    shelf = Shelf([tmp_path / "a", tmp_path / "b" / "run"])
    assert list(shelf.runs()) == ["a/run", "b/run"]
    (tmp_path / "a" / "later").mkdir()
    (tmp_path / "a" / "later" / "config.toml").touch()
    assert list(shelf.runs()) == ["later", "a/run", "b/run"]
    with pytest.raises(ConfigError, match="did you mean 'later'"):
        shelf.path("latr")
    with pytest.raises(ConfigError, match="there is nothing here"):
        Shelf([tmp_path / "none"])


def test_of_the_files_in_a_folder_only_models_and_vectors_are_offered(tmp_path: Path, lab_runs: Path) -> None:
    stray = {"train.log": "epoch 1 2.5\n", "notes.md": "# Notes\n", "empty.txt": "", "log.jsonl": '{"loss": 2.5}\n'}
    for name, text in stray.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "a folder").mkdir()
    assert Shelf([tmp_path]).runs() == {}
    (tmp_path / "animals.vec").write_text("2 3\ncat 1 2 3\ndog 3 2 1\n")
    (tmp_path / "small.arpa").write_text("\\data\\\nngram 1=1\n")
    shutil.copyfile(lab_runs / "kn" / "model.safetensors", tmp_path / "kn.ngram")
    assert list(Shelf([tmp_path]).runs()) == ["animals.vec", "kn.ngram", "small.arpa"]
    (tmp_path / "train.log").write_text("word 1 2\n")
    assert list(Shelf([tmp_path / "train.log"]).runs()) == ["train.log"]  # who names a file means it


def test_a_model_is_opened_once(lab_runs: Path) -> None:
    shelf = Shelf([lab_runs])
    assert shelf.model("lstm") is shelf.model("lstm")


def test_numbers_that_are_not_finite_become_null() -> None:
    assert answer({"a": [float("nan"), float("inf"), 1.5]}).body == b'{"a":[null,null,1.5]}'


def test_arrays_travel_as_safetensors() -> None:
    from safetensors.numpy import load

    values = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    body = arrays({"x": values.T}, unit="nats").body
    np.testing.assert_array_equal(load(bytes(body))["x"], values.T)
    assert b"nats" in body


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_has_its_script_and_its_texts(page: Any) -> None:
    assert (STATIC / "pages" / f"{page.name}.js").is_file()
    texts = json.loads((TEXTS / "en.json").read_text("utf8"))[page.name]
    assert {"menu", "title", "lede", "try", "shows"} <= texts.keys()


def shape(texts: Any) -> Any:
    """Keys, lengths of lists, and what is filled in, of texts."""
    if isinstance(texts, dict):
        return {key: shape(value) for key, value in texts.items()}
    return [shape(value) for value in texts] if isinstance(texts, list) else sorted(set(re.findall(r"\{\w+\}", texts)))


def test_both_languages_have_the_same_texts() -> None:
    english, chinese = (json.loads((TEXTS / f"{name}.json").read_text("utf8")) for name in ("en", "zh"))
    assert shape(english) == shape(chinese)


def test_every_text_that_a_script_asks_for_is_there() -> None:
    texts = json.loads((TEXTS / "en.json").read_text("utf8"))
    for path in sorted((STATIC / "pages").glob("*.js")):
        for key in re.findall(r"\bt\(\"(\w+)\"", path.read_text("utf8")):
            assert key in texts[path.stem] or key in texts["common"], f"{path.name}: {key}"


def test_the_scripts_stay_small_and_first_party() -> None:
    scripts = {path: path.read_text("utf8") for path in STATIC.rglob("*.js")}
    assert sum(len(text.splitlines()) for text in scripts.values()) < 2500
    for path, text in scripts.items():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path
        assert max(map(len, text.splitlines())) <= 140, path


def test_the_bundle_needs_no_file_beside_it() -> None:
    page = bundle(ABOUT)
    assert not re.search(r"""(src|href)="(?!#)""", page)
    assert '<script type="application/json" id="saved">null</script>' in page
    addresses = json.loads(re.search(r'<script type="importmap">(.*?)</script>', page)[1])["imports"]  # type: ignore[index]
    assert {"frame.js", "charts.js", "pages/gradient-flow.js"} <= addresses.keys()


def test_data_in_a_page_cannot_end_its_element() -> None:
    text = "</script><script>alert(1)</script>"
    assert "<" not in inert({"a": text})
    assert json.loads(inert({"a": text})) == {"a": text}


def test_the_server_starts_without_torch_and_in_time(tmp_path: Path) -> None:
    code = (
        "import sys; from ostinato.lab.server import make_app; from ostinato.lab.shelf import Shelf; make_app(Shelf());"
        "print([name for name in ('torch', 'numba', 'matplotlib', 'tokenizers') if name in sys.modules])"
    )
    began = time.perf_counter()
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "[]\n"
    assert time.perf_counter() - began < 10  # 2 s on a machine that is not shared; this is for what hangs


def test_without_its_packages_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli(["lab", "--no-browser"]) == 2
    assert "pip install 'ostinato[lab]'" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(lab_server: str) -> None:
    port = lab_server.split(":")[2].strip("/")
    words = [sys.executable, "-m", "ostinato", "lab", "--no-browser", "--port", port]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert (
        ended.stderr
        == f"ostinato: port {port}: Address already in use; choose another --port, or 0 for any that is free\n"
    )
