"""KenLM's binary files of every kind: recorded ones of a toy model, with what KenLM's own query says of them.

tests/data/kenlm.json says how they were made.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import DataError
from ostinato.ngram import kenlm_probing
from ostinato.ngram.arpa import Read, read_arpa
from ostinato.ngram.kenlm_binary import is_kenlm_binary, read_kenlm_binary
from ostinato.ngram.model import NGramModel

RECORDED = json.loads((Path(__file__).parent / "data" / "kenlm.json").read_text("utf8"))
KINDS = [kind for kind in RECORDED["files"] if kind != "arpa"]
EXACT = [kind for kind in KINDS if "quantised" not in kind]


def content(kind: str) -> bytes:
    """A recorded file."""
    return zlib.decompress(base64.b85decode(RECORDED["files"][kind]))


def put(folder: Path, data: bytes) -> Path:
    """A file with those bytes."""
    path = folder / "model"
    path.write_bytes(data)
    return path


def scores(found: Read, lines: list[str]) -> list[float]:
    """log10 of every word and line end, by our model."""
    vocabulary, model = found.vocabulary, NGramModel(found.table, found.vocabulary)
    scored: list[float] = []
    for line in lines:
        targets = np.append(vocabulary.ids(line.split()), vocabulary.stop)[None]
        inputs = np.append(vocabulary.start, targets[0, :-1])[None]
        scored += (model.score(model.init_state(1), inputs, targets)[0][0] / np.log(10)).tolist()
    return scored


def numbers(found: Read) -> dict[tuple[str, ...], tuple[float, float]]:
    """Log-prob and log back-off of every n-gram, by its words: the ids of two files differ."""
    trie, log_prob, log_backoff = found.table.contents()
    pieces = found.vocabulary.pieces
    weights = np.concatenate([log_backoff, np.zeros(trie.nodes - trie.inner)])
    return {
        tuple(pieces[word] for word in trie.words_of(node)): (float(log_prob[node]), float(weights[node]))
        for node in range(1, trie.nodes)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_scores_what_kenlm_says(tmp_path, kind):
    path = put(tmp_path, content(kind))
    assert is_kenlm_binary(path)
    found = read_kenlm_binary(path)
    found.table.check()
    wanted = RECORDED["scores"].get(kind, RECORDED["scores"]["exact"])
    assert scores(found, RECORDED["lines"]) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("kind", EXACT)
def test_what_is_not_quantised_has_the_very_numbers_of_its_arpa_file(tmp_path, kind):
    found, wanted = read_kenlm_binary(put(tmp_path, content(kind))), read_arpa(put(tmp_path, content("arpa")))
    assert sorted(found.vocabulary.pieces) == sorted(wanted.vocabulary.pieces)
    mine, theirs = numbers(found), numbers(wanted)
    assert mine.keys() == theirs.keys()
    for gram, pair in theirs.items():
        assert mine[gram] == pytest.approx(pair, rel=3e-7, abs=1e-7), gram
    assert found.table.normalised
    assert found.notes == wanted.notes == ()


def test_a_quantised_model_says_that_it_is_no_distribution(tmp_path):
    found = read_kenlm_binary(put(tmp_path, content("quantised trie")))
    assert not found.table.normalised
    assert "do not sum to one" in found.notes[0]
    unigrams = [gram for gram in numbers(found) if len(gram) == 1]
    exact = numbers(read_arpa(put(tmp_path, content("arpa"))))
    assert all(numbers(found)[gram] == pytest.approx(exact[gram], rel=3e-7, abs=1e-7) for gram in unigrams)


def test_bigrams_are_found_in_parts_of_any_size(tmp_path, monkeypatch):
    path = put(tmp_path, content("probing"))
    whole = numbers(read_kenlm_binary(path))
    for size in (0, 1, 3):
        monkeypatch.setattr(kenlm_probing, "PART", size)
        monkeypatch.setattr(kenlm_probing, "RUN", 5)
        assert numbers(read_kenlm_binary(path)) == whole


def test_too_large_a_hash_table_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(kenlm_probing, "MOST_PAIRS", 18 * 18)
    with pytest.raises(DataError, match="give the ARPA file it is from, or build it as a trie"):
        read_kenlm_binary(put(tmp_path, content("probing")))


def changed(data: bytes, place: int, value: bytes) -> bytes:
    """The bytes with others at one place."""
    return data[:place] + value + data[place + len(value) :]


TRIE = content("trie")
HEADER = 88  # the magic words and the test values; then order, multiplier, kind, has words, version, numbers


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed(TRIE, 48, b"4"), "of another version or kind of machine"),
        (changed(TRIE, 60, b"\x3f\x80\0\0"), "of another version or kind of machine"),
        (changed(TRIE, 34, b"incomplete\n\0"), "is not finished"),
        (changed(TRIE, HEADER + 12, b"\0"), "holds hashes of its words, not the words; give the ARPA file"),
        (changed(TRIE, HEADER + 8, b"\x06"), "a kind of KenLM file not known here"),
        (changed(TRIE, HEADER + 16, b"\x07"), "a kind of KenLM file not known here"),
        (changed(TRIE, HEADER, b"\x01"), "its header makes no sense"),
        (changed(TRIE, HEADER + 28, b"\xff\xff\xff\xff\xff"), "n-grams are more than one table can hold"),
        (changed(TRIE, HEADER + 28, b"\xff\xff\xff"), "cut short"),
        (TRIE[:HEADER], "cut short"),
        (TRIE[:1000], "cut short"),
        (TRIE[:-3], "damaged KenLM file: .* words for .* unigrams"),
        (TRIE.replace("天".encode(), b"\xff\xff\xff"), "is not UTF-8"),
        (TRIE.replace(b"w14\0", b"<pad>\0"), "the word <pad> stands for padding here"),
        (TRIE.replace(b"w11\0", b"w14\0"), "a word is listed twice"),
        (b"\\data\\\n", "not a binary file of KenLM"),
        (b"", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_way_out(tmp_path, data, message):
    with pytest.raises(DataError, match=message):
        read_kenlm_binary(put(tmp_path, data))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_kenlm_binary(tmp_path / "none")
    assert not is_kenlm_binary(tmp_path / "none")
    assert not is_kenlm_binary(put(tmp_path, b"\\data\\\n"))


@given(st.sampled_from(KINDS), st.data())
@settings(deadline=None, max_examples=200)
def test_random_damage_is_refused_or_harmless(tmp_path_factory, kind, data):
    """Whatever byte is changed to whatever: an error of ours, or a table that can be walked."""
    whole = content(kind)
    place = data.draw(st.integers(HEADER, len(whole) - 1))
    spoilt = changed(whole, place, bytes([data.draw(st.integers(0, 255))]))
    try:
        found = read_kenlm_binary(put(tmp_path_factory.mktemp("spoilt"), spoilt))
    except DataError:
        return
    scores(found, RECORDED["lines"])


def test_new_files_of_every_kind_score_what_kenlm_says(tmp_path):
    """Made and queried with the programs in the folder that OSTINATO_KENLM names."""
    programs = Path(os.environ.get("OSTINATO_KENLM", ""))
    if not os.environ.get("OSTINATO_KENLM") or not all(
        (programs / name).exists() for name in ("lmplz", "build_binary", "query")
    ):
        pytest.skip("OSTINATO_KENLM names no folder with KenLM's lmplz, build_binary and query")
    chance = random.Random(3)
    words = [f"w{number}" for number in range(300)]
    weights = [1 / (number + 1) for number in range(300)]
    text = "".join(" ".join(chance.choices(words, weights, k=chance.randrange(12))) + "\n" for _ in range(600))

    def run(name: str, *arguments: object, spoken: str = "") -> str:
        command = [str(programs / name), *map(str, arguments)]
        return subprocess.run(command, input=spoken, capture_output=True, text=True, check=True).stdout

    (tmp_path / "arpa").write_text(run("lmplz", "-o", "5", "--discount_fallback", spoken=text))
    for options in (
        ["probing"],
        ["trie"],
        ["-q", "8", "trie"],
        ["-a", "255", "trie"],
        ["-q", "7", "-b", "9", "-a", "4", "trie"],
    ):
        run("build_binary", *options, tmp_path / "arpa", tmp_path / "binary")
        lines = text.splitlines()[:50]
        said = run("query", "-v", "word", tmp_path / "binary", spoken="\n".join([*lines, ""]))
        wanted = [float(part.split()[-1]) for line in said.splitlines() for part in line.split("\t") if "=" in part]
        assert scores(read_kenlm_binary(tmp_path / "binary"), lines) == pytest.approx(wanted, abs=1e-4), options
