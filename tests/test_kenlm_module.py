"""The drop-in for KenLM's Python module says what the module says: recorded, and live where that is installed.

The values were recorded with kenlm 0.3.0 beside our own packages, from the root of the repository:

    python tests/test_kenlm_module.py
"""

from __future__ import annotations

import copy
import gzip
import inspect
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ostinato.kenlm as ours
import test_kenlm_binary
from ostinato.core.errors import ConfigError, MismatchError
from ostinato.kenlm import batch
from ostinato.kernels import single
from ostinato.ngram.arpa import read_arpa
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.files import open_any
from ostinato.ngram.model import NGramModel
from ostinato.ngram.store import save_model
from ostinato.runs import RunDir
from references.arpa import Gram, SlowArpa

RECORDED = Path(__file__).parent / "data" / "kenlm_module.json"
LONG = ["eightlet", "ninelette", "seventeen_letters!", "eightlet_and_more"]
WORDS = ["a", "b", "c", "d", "an", "and", "the", "天", "né", "of", "the_one", *LONG, "x", "y", "z"]
WAYS = [(True, True), (True, False), (False, True), (False, False)]
PIECES = [
    *WORDS,
    "q",
    "",
    "eightle",
    "ninelettE",
    "<unk>",
    "<UNK>",
    "<pad>",
    "</s>",
    "<s>",
    "a\u00a0b",
    "\x1c",
    "\ufeff",
]
sentences = st.lists(st.sampled_from(PIECES), max_size=9).map(" ".join)
plain = st.lists(st.sampled_from([*WORDS, "q"]), max_size=9)


def arpa() -> str:
    """A model made up of all n-grams of some lines, up to order 4; one word has no probability."""
    chance = random.Random(7)

    def draw(low: float, high: float) -> float:
        return round(low + (high - low) * chance.random(), 4)

    lines = [
        [WORDS[int(len(WORDS) * chance.random() ** 2)] for _ in range(int(9 * chance.random()))] for _ in range(90)
    ]
    grams: list[dict[Gram, None]] = [{("<unk>",): None, ("<s>",): None, ("</s>",): None}, {}, {}, {}]
    grams[0] |= {(word,): None for word in WORDS}
    for line in lines:
        whole = ("<s>", *line, "</s>")
        for order in range(2, 5):
            grams[order - 1] |= {whole[place : place + order]: None for place in range(len(whole) - order + 1)}
    text = "\\data\\\n" + "".join(f"ngram {order}={len(found)}\n" for order, found in enumerate(grams, 1))
    for order, found in enumerate(grams, 1):
        text += f"\n\\{order}-grams:\n"
        for gram in found:
            prob = {("<s>",): 0.0, ("z",): -99.0}.get(gram, draw(-3.0, -0.1))
            backoff = 0.0 if gram[-1] == "</s>" or gram == ("<unk>",) or chance.random() < 0.2 else draw(-1.0, 0.0)
            backoff = -99.0 if gram == ("y",) else backoff
            text += f"{prob}\t{' '.join(gram)}" + (f"\t{backoff}\n" if order < 4 else "\n")
    return text + "\n\\end\\\n"


class Slow(SlowArpa):
    """The same file by definition, as KenLM takes it: -99 is a number, and `<s>` has one."""

    @staticmethod
    def log(field: str) -> float:
        """A number of the file."""
        return float(field)

    def length(self, history: Gram, word: str) -> int:
        """How long the longest n-gram is that ends in `word`."""
        history = history[max(0, len(history) - self.order + 1) :]
        return len(history) + 1 if not history or (*history, word) in self.prob else self.length(history[1:], word)

    def full(self, text: str, bos: bool = True, eos: bool = True) -> list[tuple[float, int, bool]]:
        """What `full_scores` is defined to be."""
        words = [word.decode() for word in text.encode().split()]
        history: Gram = ("<s>",) if bos else ()
        found = []
        for word in [*words, *["</s>"] * eos]:
            known = word if (word,) in self.prob else "<unk>"
            history = ("<s>",) if known == "<s>" and found and history[-1] == "<s>" else history
            found.append((self.score(history, known), self.length(history, known), known == "<unk>"))
            history = (*history, known)
        return found


SLOW = Slow(arpa())


@pytest.fixture(scope="module")
def arpa_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "toy.arpa"
    path.write_text(arpa(), "utf8")
    return path


@pytest.fixture(scope="module")
def model(arpa_file: Path) -> ours.Model:
    return ours.Model(str(arpa_file))


def observed(kenlm: Any, path: str) -> dict[str, Any]:
    """What a module of this interface says of the toy model."""
    config = kenlm.Config()
    config.show_progress, config.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    config.load_method = kenlm.LoadMethod.LAZY
    model = kenlm.Model(path, config)
    chance = random.Random(11)
    texts = [
        " ".join(PIECES[int(len(PIECES) * chance.random() ** 1.5)] for _ in range(place // 4)) for place in range(36)
    ]
    texts += ["", " a\tthe \n", "a\x0bb\x0cc", "a </s> a", "<s> a b", "the <s> a b", "z", "a a a a a a"]
    state, after = kenlm.State(), kenlm.State()
    model.NullContextWrite(state)
    steps = []
    for word in [*WORDS, "q", *WORDS[::2], "</s>", "a", "a b"]:
        full = model.BaseFullScore(state, word, after)
        steps.append([model.BaseScore(state, word, after), full.log_prob, full.ngram_length, full.oov])
        state, after = after, state
    return {
        "names": sorted(name for name in dir(kenlm) if name[0].isupper()),
        "methods": sorted(name for name in dir(model) if name[0] != "_"),
        "methods_of": [load for load in dir(kenlm.LoadMethod) if load[0] != "_"],
        "settings": sorted(name for name in dir(kenlm.Config) if name[0] != "_"),
        "sentences": texts,
        "scores": [[model.score(text, *way) for way in WAYS] for text in texts],
        "full": [[list(word) for word in model.full_scores(text, place % 3 > 0)] for place, text in enumerate(texts)],
        "perplexities": [model.perplexity(text) for text in texts],
        "known": [word in model for word in PIECES],
        "order": model.order,
        "repr": repr(model),
        "steps": steps,
    }


def test_everything_that_was_recorded_from_kenlm_is_said_here_too(arpa_file):
    check(observed(ours, str(arpa_file)), json.loads(RECORDED.read_text("utf8")))


def check(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Assert that two of `observed` agree; we may have more methods."""
    assert set(theirs["methods"]) <= set(mine["methods"])
    for name in theirs.keys() - {"methods", "scores", "full", "perplexities", "steps"}:
        assert mine[name] == theirs[name], name
    assert mine["perplexities"] == pytest.approx(theirs["perplexities"], rel=1e-4)
    for name in ("scores", "full", "steps"):
        for text, one, other in zip(mine["sentences"], mine[name], theirs[name], strict=name != "steps"):
            np.testing.assert_allclose(
                np.array(one, float), np.array(other, float), atol=1e-4, err_msg=f"{name} {text!r}"
            )


def real() -> ModuleType:
    """KenLM's own module, or a skip."""
    return pytest.importorskip("kenlm", reason="KenLM's Python module is not installed")


def test_kenlm_itself_says_the_same_today(arpa_file):
    check(observed(ours, str(arpa_file)), json.loads(json.dumps(observed(real(), str(arpa_file)))))


def test_kenlm_itself_says_the_same_of_whatever_it_is_given(arpa_file, model):
    theirs = real().Model(str(arpa_file))

    @settings(deadline=None)
    @given(sentences, st.booleans(), st.booleans())
    def compare(text, bos, eos):
        assert model.score(text, bos, eos) == pytest.approx(theirs.score(text, bos, eos), abs=1e-4)
        mine, other = list(model.full_scores(text, bos, eos)), list(theirs.full_scores(text, bos, eos))
        assert [word[1:] for word in mine] == [word[1:] for word in other]

    compare()


@settings(deadline=None)
@given(sentences, st.booleans(), st.booleans())
def test_every_word_is_scored_as_the_definition_says(model, text, bos, eos):
    mine, wanted = list(model.full_scores(text, bos, eos)), SLOW.full(text, bos, eos)
    assert [log_prob for log_prob, *_ in mine] == pytest.approx([log_prob for log_prob, *_ in wanted], abs=1e-5)
    assert [word[1:] for word in mine] == [word[1:] for word in wanted]
    assert model.score(text, bos, eos) == pytest.approx(sum(log_prob for log_prob, *_ in mine), abs=1e-9)


def test_a_sum_by_hand(tmp_path):
    path = tmp_path / "toy"
    path.write_text(
        "\\data\\\nngram 1=5\nngram 2=2\n\n\\1-grams:\n-1.5\t<unk>\n-99\t<s>\t-0.25\n-0.5\t</s>\n-0.4\ta\t-0.3\n"
        "-0.8\tb\t-0.125\n\n\\2-grams:\n-0.2\t<s> a\n-0.7\ta b\n\n\\end\\\n"
    )
    model = ours.Model(path)
    assert model.score("a b") == pytest.approx(-0.2 - 0.7 + (-0.125 - 0.5), abs=1e-6)
    assert model.score("b q", bos=False) == pytest.approx(-0.8 + (-0.125 - 1.5) + -0.5, abs=1e-6)
    assert model.perplexity("a b") == pytest.approx(10 ** ((0.2 + 0.7 + 0.625) / 3), rel=1e-6)
    wanted = [(-0.2, 2, False), (-0.3 - 0.4, 1, False), (-0.3 - 1.5, 1, True), (-0.5, 1, False)]
    for mine, (log_prob, length, oov) in zip(model.full_scores("a a q"), wanted, strict=True):
        assert mine == (pytest.approx(log_prob, abs=1e-6), length, oov)


@settings(deadline=None)
@given(plain, st.booleans())
def test_word_by_word_is_the_same_as_all_at_once(model, words, bos):
    state, after, total = ours.State(), ours.State(), 0.0
    if bos:
        model.BeginSentenceWrite(state)
    for word, (log_prob, length, oov) in zip(words, model.full_scores(" ".join(words), bos, False), strict=True):
        total += model.BaseScore(state, word, after)
        full = model.BaseFullScore(state, word, state)
        assert (full.log_prob, full.ngram_length, full.oov) == (log_prob, length, oov)
        assert state == after
    assert model.score(" ".join(words), bos, False) == pytest.approx(total, abs=1e-9)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([*PIECES, "\n", "\0", "a\0", "a\0b"]), max_size=9).map(" ".join), max_size=9),
    st.data(),
)
def test_many_at_once_score_as_each_alone(model, texts, data):
    threads = data.draw(st.sampled_from([1, 2, None]))
    given_as = [text.encode() if data.draw(st.booleans()) else text for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "BLOCK", data.draw(st.sampled_from([1, 20, batch.BLOCK])))
        scored = model.score_batch(given_as, threads)
    assert scored.dtype == np.float64
    assert scored.tolist() == pytest.approx([model.score(text) for text in texts], abs=1e-5)


def test_more_words_than_are_looked_up_together_are_no_trouble(model):
    texts = ["the a b q " * number for number in range(0, 2000, 150)]
    assert model.score_batch(texts).tolist() == pytest.approx([model.score(text) for text in texts], rel=1e-6)


@settings(deadline=None)
@given(plain, st.integers(1, 40))
def test_the_next_words_are_those_that_score_best(model, words, k):
    found = model.next_words(" ".join(words), k)
    state, after = ours.State(), ours.State()
    model.BeginSentenceWrite(state)
    for word in words:
        model.BaseScore(state, word, state)
    assert found == model.next_words(state, k)
    every = {word: model.BaseScore(state, word, after) for word in [*WORDS, "</s>", "<unk>"]}
    scores = {word: log_prob for word, log_prob in every.items() if log_prob > -50}
    assert dict(found) == pytest.approx({word: scores[word] for word, _ in found}, abs=1e-5)
    assert [log_prob for _, log_prob in found] == pytest.approx(sorted(scores.values(), reverse=True)[:k], abs=1e-5)


def test_no_next_words_are_refused(model):
    with pytest.raises(ConfigError, match="at least 1"):
        model.next_words("a", 0)


def test_a_state_is_a_value(model):
    begin, null, after = ours.State(), ours.State(), ours.State()
    model.BeginSentenceWrite(begin)
    assert begin != null
    assert (begin < null) != (null < begin)
    assert begin != "a state"
    with pytest.raises(TypeError):
        _ = begin < 3
    for made in (copy.copy(begin), copy.deepcopy(begin), pickle.loads(pickle.dumps(begin))):
        assert made == begin
        assert hash(made) == hash(begin)
        assert made is not begin
    kept = copy.copy(begin)
    model.BaseScore(begin, "a", begin)
    assert kept != begin
    model.BaseScore(null, "q", after)
    assert after == null == ours.State()
    model.NullContextWrite(begin)
    assert begin == null


def test_a_state_that_the_model_does_not_have_is_refused(model):
    state = ours.State()
    for row in (1, -1, 10**12):
        state.row = row
        with pytest.raises(MismatchError, match="another model"):
            model.BaseScore(state, "a", state)
        with pytest.raises(MismatchError, match="another model"):
            model.BaseFullScore(state, "a", state)
        with pytest.raises(MismatchError, match="another model"):
            model.next_words(state)


def test_what_is_no_text_is_refused_as_kenlm_does(model):
    state = ours.State()
    for call in (model.score, model.perplexity, lambda text: list(model.full_scores(text)), model.__contains__):
        with pytest.raises(TypeError, match="Cannot convert <class 'int'> to string"):
            call(3)
    for call in (model.BaseScore, model.BaseFullScore):
        with pytest.raises(TypeError, match="expected str, got bytes"):
            call(state, b"a", state)
    with pytest.raises(TypeError, match="Cannot convert"):
        model.score_batch(["a", None])


def test_bytes_are_text_too(model):
    assert model.score("né 天".encode()) == model.score("né 天")
    assert list(model.full_scores(b"a q")) == list(model.full_scores("a q"))
    assert b"a" in model
    assert b"\xff" not in model
    assert model.score(b"\xff\xff\xff\xff\xff\xff\xff\xff a") == model.score("q a")


def test_a_zero_byte_makes_a_word_unknown(model):
    assert model.score("a\0 b") == model.score("a\0b b") == model.score("q b")
    assert "a\0" not in model


def test_a_model_goes_to_another_process_by_its_path(model, arpa_file):
    again = pickle.loads(pickle.dumps(model))
    assert again.score("a b") == model.score("a b")
    assert again.path == model.path == os.fsencode(arpa_file)
    assert repr(again) == "<Model from b'toy.arpa'>"
    assert isinstance(ours.LanguageModel(str(arpa_file)), ours.Model)


def test_a_path_may_be_relative_or_bytes(model, arpa_file, monkeypatch):
    monkeypatch.chdir(arpa_file.parent)
    for path in ("toy.arpa", b"toy.arpa", Path("toy.arpa")):
        assert ours.Model(path, ours.Config()).path == model.path


def test_a_file_is_known_by_its_content(arpa_file, tmp_path, model):
    table, vocabulary, _ = read_arpa(arpa_file)
    made = open_any(arpa_file)
    wrong, packed, own = tmp_path / "model.bin", tmp_path / "packed.arpa", tmp_path / "own.arpa"
    wrong.write_text(arpa(), "utf8")
    packed.write_bytes(gzip.compress(arpa().encode()))
    save_model(own, NGramModel(table, vocabulary), made.pipeline)
    with RunDir.create(tmp_path / "run") as run:
        run.write_config("")
        about = {"vocabulary": vocabulary.fingerprint, "table": table.metadata()}
        run.save_model("ngram", table.arrays(), about)
        (run.path / "data").mkdir()
        vocabulary.save(run.path / "data" / "vocabulary.json")
        made.pipeline.save(run.path / "data" / "text.json")
    for path in (wrong, packed, own, tmp_path / "run"):
        for text in ("the a b", "a z the of and", "eightlet_and_more seventeen_letters! 天 q"):
            assert list(ours.Model(path).full_scores(text)) == list(model.full_scores(text)), path


def test_a_compact_file_scores_as_its_table_expanded(arpa_file, tmp_path):
    found = read_arpa(arpa_file)
    compact, plain = tmp_path / "compact", tmp_path / "plain"
    small = CompactTable.from_table(found.table)
    save_model(compact, CompactModel(small, found.vocabulary), open_any(arpa_file).pipeline)
    save_model(plain, NGramModel(small.expand(), found.vocabulary), open_any(arpa_file).pipeline)
    for text in ("the a b", "a z the of and"):
        assert ours.Model(compact).score(text) == pytest.approx(ours.Model(plain).score(text), abs=1e-6)


@pytest.mark.parametrize("kind", test_kenlm_binary.EXACT)
def test_a_binary_file_of_kenlm_scores_as_its_arpa_file(tmp_path, kind):
    binary, text = tmp_path / "binary", tmp_path / "text"
    binary.write_bytes(test_kenlm_binary.content(kind))
    text.write_bytes(test_kenlm_binary.content("arpa"))
    mine, other = ours.Model(binary), ours.Model(text)
    for line in test_kenlm_binary.RECORDED["lines"]:
        assert np.array(list(mine.full_scores(line))) == pytest.approx(
            np.array(list(other.full_scores(line))), abs=1e-5
        )


def test_what_is_no_model_is_an_oserror_as_in_kenlm(tmp_path):
    junk, empty = tmp_path / "junk", tmp_path / "empty"
    junk.write_bytes(b"import this\n" * 40)
    empty.write_bytes(b"")
    for path, what in [(tmp_path / "none", "no such file"), (junk, "no ARPA file"), (empty, "no ARPA file")]:
        with pytest.raises(OSError, match=f"Cannot read model .*{what}"):
            ours.Model(str(path))
    with pytest.raises(OSError, match="not a run directory"):
        ours.Model(tmp_path)
    with RunDir.create(tmp_path / "run") as run:
        run.write_config("")
        run.save_model("gru", {"x": np.zeros(1)}, {})
    with pytest.raises(OSError, match="holds a gru model, not an n-gram model"):
        ours.Model(tmp_path / "run")


def lengths_by_definition(path: Path) -> tuple[list[int], list[int]]:
    """The rows where the contexts of each length begin, by walking over all nodes, and as the kernel finds them."""
    table = read_arpa(path).table
    trie, _, log_backoff = table.contents()
    fans = np.diff(trie.first_child)
    blocks = [node for node in range(trie.inner) if node == 0 or fans[node] or log_backoff[node]]
    headers = np.flatnonzero(table.rows[2::3] < 0)
    assert len(blocks) == len(headers)
    row = dict(zip(blocks, headers.tolist(), strict=True))
    ends = np.cumsum([1, *table.ngrams])
    wanted = []
    for length in range(table.order):
        level = range(0 if length == 0 else ends[length - 1], ends[length])
        after = [row[node] for node in blocks if node >= level.start]
        wanted.append(min(after, default=len(table.rows) // 3))
    found = np.empty(table.order, np.int64)
    single.first_rows(table.rows, found)
    return wanted, found.tolist()


grams = st.lists(st.lists(st.integers(0, 14), min_size=2, max_size=4).map(tuple), max_size=40)


@settings(deadline=None)
@given(grams, st.integers(0, 3))
def test_rows_tell_the_length_of_an_n_gram(chosen, spared):
    """Contexts need not continue: an order may have none at all, and wide contexts are hashed."""
    words = [f"w{number}" for number in range(15)]
    levels = [{(word,) for word in ["<unk>", "<s>", "</s>", *words]}, set(), set(), set()]
    for gram in chosen:
        for size in range(2, len(gram) + 1):
            levels[size - 1].add(tuple(words[number] for number in gram[:size]))
    text = "\\data\\\n" + "".join(f"ngram {order}={len(found)}\n" for order, found in enumerate(levels, 1))
    for order, found in enumerate(levels, 1):
        backoff = "\t-0.5" if order == spared else ""
        text += f"\n\\{order}-grams:\n" + "".join(f"-1\t{' '.join(gram)}{backoff}\n" for gram in sorted(found))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "toy.arpa"
        path.write_text(text + "\n\\end\\\n")
        wanted, found = lengths_by_definition(path)
    assert found == wanted


def test_importing_loads_no_compiler_and_using_no_torch(arpa_file):
    code = (
        "import sys, ostinato.kenlm as kenlm\n"
        "assert not {'torch', 'numba', 'llvmlite'} & set(sys.modules)\n"
        f"kenlm.Model({str(arpa_file)!r}).score('a b')\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_methods_take_the_same_arguments_as_kenlms():
    """As its source has them: positions and defaults."""
    wanted = {
        "score": "(self, sentence, bos=True, eos=True)",
        "full_scores": "(self, sentence, bos=True, eos=True)",
        "perplexity": "(self, sentence)",
        "BeginSentenceWrite": "(self, state)",
        "NullContextWrite": "(self, state)",
        "BaseScore": "(self, in_state, word, out_state)",
        "BaseFullScore": "(self, in_state, word, out_state)",
    }
    for name, signature in wanted.items():
        found = inspect.signature(getattr(ours.Model, name))
        bare = [part.replace(annotation=inspect.Parameter.empty) for part in found.parameters.values()]
        assert str(inspect.Signature(bare)) == signature
    assert repr(ours.FullScoreReturn(-1.5, 2, False)) == "FullScoreReturn(-1.5, 2, False)"
    config = ours.Config()
    assert (config.load_method, config.show_progress, config.arpa_complain) == (2, True, 0)
    assert ours.LoadMethod.PARALLEL_READ == 4


if __name__ == "__main__":
    import kenlm

    with tempfile.TemporaryDirectory() as at:
        (Path(at) / "toy.arpa").write_text(arpa(), "utf8")
        said = observed(kenlm, str(Path(at) / "toy.arpa"))
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in said.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf8")
