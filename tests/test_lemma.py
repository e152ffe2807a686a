"""The trainable lemmatiser: against a slow twin, hand arithmetic, and a treebank with its dictionary beside it."""

from __future__ import annotations

import doctest
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ostinato.text.lemma as lemma_module
from ostinato.core.errors import ConfigError, DataError, FormatError, ShapeError
from ostinato.text import lemma_rules
from ostinato.text.lemma import Lemmatiser
from ostinato.text.lemma_rules import Edit, Endings, case_between, cased, edit_between, lowered, shape
from ostinato.text.lemma_score import Word, evaluate, read_words
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import make_tokeniser
from references import lemmas as slow

SMALL = st.text("abst1,", min_size=1, max_size=7)
PAIRS = st.dictionaries(SMALL, SMALL, max_size=12)
FORMS = st.text("aAbBsS1ıİß国", min_size=1, max_size=4)
TAGS = st.sampled_from(["NOUN", "VERB", None])
TRIPLES = st.lists(st.tuples(FORMS, TAGS, FORMS), min_size=1, max_size=12)


@pytest.mark.parametrize("module", [lemma_module, lemma_rules])
def test_the_examples_are_true(module):
    assert doctest.testmod(module).failed == 0


@settings(deadline=None)
@given(PAIRS, SMALL, st.sets(SMALL, max_size=3))
def test_the_longest_known_ending_decides_as_in_the_slow_twin(pairs, word, attested):
    assert Endings.fit(pairs.items()).lemma(word, attested) == slow.lemma(list(pairs.items()), word, attested)


def test_votes_by_hand():
    """Of the forms in -ed, 2 lose two letters and 1 loses one; of those in -ted, 1 and 1, and the shorter cut wins."""
    pairs = [("walked", "walk"), ("lasted", "last"), ("hated", "hate")]
    endings = Endings.fit(pairs)
    assert endings.edits == {"d": (Edit(2), Edit(1)), "ted": (Edit(1), Edit(2))}  # "ed" says what "d" does
    assert endings.lemma("asked") == "ask"
    assert endings.lemma("rusted") == "ruste"
    assert endings.lemma("rusted", {"rust"}) == "rust"
    assert endings.lemma("pasted", {"pa"}) == "paste"  # no form says that
    assert endings.lemma("ways") == "ways"  # nor anything of words in -s


def test_an_edit_of_few_of_an_endings_forms_is_not_thought_of():
    pairs = [(f"{letter}as", f"{letter}a") for letter in "bcdfghjklm"]
    assert Endings.fit([*pairs, ("gas", "gas")]).lemma("fas", {"fas"}) == "fa"  # 1 of 11
    assert Endings.fit([*pairs[:9], ("gas", "gas")]).lemma("fas", {"fas"}) == "fas"  # 1 of 10


@pytest.mark.parametrize(
    ("word", "lemma", "edit"),
    [
        ("stories", "story", Edit(3, "y")),
        ("unic", "unique", Edit(1, "que")),
        ("same", "same", Edit(0)),
        ("1,000,000", "1000000", Edit(0, drop=",")),
        ("went", "go", None),
    ],
)
def test_an_edit_is_what_differs(word, lemma, edit):
    assert edit_between(word, lemma) == edit
    if edit is not None:
        assert edit.apply(word) == lemma
        assert Edit.read(edit.write()) == edit


def test_numbers_are_alike():
    endings = Endings.fit([("1,204", "1204"), ("7,561", "7561"), ("1999", "1999"), ("204", "204")])
    assert [endings.lemma(word) for word in ("9,387", "3,000", "2001", "5")] == ["9387", "3000", "2001", "5"]


def test_nothing_is_ever_edited_away():
    endings = Endings({"c": (Edit(3), Edit(4, "x"), Edit(0, drop="z"))})
    assert [edit.apply("abc") for edit in endings.edits["c"]] == ["", "", ""]
    assert endings.lemma("abc", {""}) == "abc"
    assert Edit(0, drop=",").apply(",,") == ""


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("word", "lower"), ("国", "lower"), ("Word", "title"), ("I", "letter"), ("USA", "short"), ("SHOUT", "capitals"),
        ("McDonald", "mixed"), ("B2B", "digits"), ("İSTANBUL", "capitals"),
    ],
)  # fmt: skip
def test_shapes(form, kind):
    assert shape(form) == kind


@given(st.text())
def test_small_letters_are_as_many(text):
    assert len(lowered(text)) == len(text)
    assert lowered(lowered(text)) == lowered(text)
    assert lowered("İSTANBUL") == "istanbul"


def test_cases():
    assert cased("city", "Cities", "keep") == "City"
    assert cased("city", "CITIES", "keep") == "CITY"
    assert cased("mcdonald", "McDonalds", "keep") == "McDonald"
    assert case_between("Cities", "city") == "lower"
    assert case_between("SOUTER", "Souter") == "title"
    assert case_between("Paris", "Paris") == "keep"
    assert case_between("mcdonald", "McDonald") is None


def test_case_is_learnt_by_part_of_speech():
    """A noun that begins a sentence is small in the dictionary, a name is not; nothing says so but the words."""
    nouns = [("Cars", "NOUN", "car"), ("Doors", "NOUN", "door"), ("houses", "NOUN", "house")]
    names = [("Alps", "PROPN", "Alps"), ("Paris", "PROPN", "Paris"), ("ROMA", "PROPN", "ROMA")]
    made = Lemmatiser.fit([*nouns, *names])
    assert made.lemma("Stars", "NOUN") == "star"
    assert made.lemma("Hares", "PROPN") == "Hares"
    assert made.lemma("HOUSES", "NOUN") == "house"
    german = Lemmatiser.fit([(form, tag, lemma.capitalize()) for form, tag, lemma in nouns])
    assert german.lemma("Stars", "NOUN") == "Star"


def test_a_name_that_is_also_a_word_may_keep_its_case():
    """Seen: `bay` in names under its own case, but Bay elsewhere; `india` under the case of India."""
    words = [("bay", "NOUN", "bay"), ("park", "NOUN", "park"), ("lake", "NOUN", "lake")]
    names = [(low, "PROPN", low) for low in ("bay", "park")] + [
        (low, "PROPN", low.title()) for low in ("india", "mali")
    ]
    names += [(form, "PROPN", form) for form in ("Bay", "Park", "India", "Mali", "Lake", "Peru") for _ in range(2)]
    made = Lemmatiser.fit(words + names)
    assert made.recases["PROPN"]["lower elsewhere"] == "keep"
    assert made.recases["PROPN"]["lower"] == "listed"
    assert made.lemmas(["lake", "peru"], ["PROPN", "PROPN"]) == ["lake", "Peru"]


def test_what_a_form_adds_itself_does_not_count_when_its_case_is_learnt():
    """Without the five `bay` there is Bay alone, whose lemma would be wrong for `bay`, and in its own case right."""
    made = Lemmatiser.fit([("bay", "PROPN", "bay")] * 5 + [("Bay", "PROPN", "Bay"), ("Peru", "PROPN", "Peru")])
    assert made.recases["PROPN"]["lower"] == "keep"
    assert made.lemma("peru", "PROPN") == "peru"


def test_a_form_in_a_case_never_seen_has_the_most_frequent_lemma_of_all_cases():
    made = Lemmatiser.fit([("us", "PRON", "us"), ("Us", "PRON", "we"), ("Us", "PRON", "we")])
    assert made.lemmas(["us", "Us", "US"], ["PRON"] * 3) == ["us", "we", "we"]


def test_an_acronym_in_s_is_no_plural():
    names = ["Beavers", "Giants", "Rangers"]
    made = Lemmatiser.fit(
        [(name, "PROPN", name[:-1]) for name in names] + [(name, "PROPN", name) for name in ("AMS", "LTS")]
    )
    assert made.lemmas(["Bruins", "BBS"], ["PROPN", "PROPN"]) == ["Bruin", "BBS"]


def test_what_was_seen_is_looked_up_by_form_and_part_of_speech():
    found = [("found", "VERB", "find"), ("found", "VERB", "find"), ("found", "VERB", "found")]
    leaves = [("leaves", "NOUN", "leaf"), ("leaves", "VERB", "leave"), ("leaves", "VERB", "leave")]
    made = Lemmatiser.fit([*found, *leaves])
    assert made.lemmas(["found", "leaves", "leaves"], ["VERB", "NOUN", "VERB"]) == ["find", "leaf", "leave"]
    assert made.lemma("leaves") == "leave"  # 2 of 3
    assert made.lemma("leaves", "ADJ") == "leave"  # never seen: as if it were not given
    assert [made.how(*pair) for pair in (("found", "VERB"), ("Found", "VERB"), ("found", "NOUN"))] == [
        "seen", "recased", "ruled",
    ]  # fmt: skip


@settings(deadline=None)
@given(TRIPLES, st.lists(st.tuples(FORMS, TAGS), max_size=8), st.randoms())
def test_what_always_holds(triples, asked, random):
    made = Lemmatiser.fit(triples)
    forms, tags = [form for form, _ in asked], [tag for _, tag in asked]
    lemmas = made.lemmas(forms, tags)
    assert all(lemmas)
    assert lemmas == [made.lemma(form, tag) for form, tag in asked]
    again = Lemmatiser.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    assert again.lemmas(forms, tags) == lemmas
    random.shuffle(triples)
    assert Lemmatiser.fit(triples) == made
    assert made.untagged.lemmas(forms, tags) == made.lemmas(forms)
    certain = {(form, tag) for form, tag, _ in triples}
    for form, tag in certain:
        found = {lemma for one, other, lemma in triples if (one, other) == (form, tag)}
        if len(found) == 1 and tag is not None:
            assert made.lemma(form, tag) in found


@settings(deadline=None)
@given(st.lists(st.text("国人大学生1。", min_size=1, max_size=4), min_size=1), st.text("国人大学生家23", min_size=1))
def test_where_every_lemma_is_its_form_every_form_is_its_lemma(forms, new):
    made = Lemmatiser.fit([(form, "NOUN", form) for form in forms])
    assert made.lemma(new, "NOUN") == made.lemma(new) == new


def test_lemmas_that_are_not_given_are_not_learnt():
    made = Lemmatiser.fit([("teh", "DET", "_"), ("a", "DET", ""), ("_", "PUNCT", "_"), ("the", "DET", "the")])
    assert set(made.listed[""]) == {"_", "the"}
    with pytest.raises(DataError, match="none of 2 words has a lemma; train on a treebank whose lemmas are given"):
        Lemmatiser.fit([("a", "DET", "_"), ("b", None, "_")])


def test_a_wrong_call_is_refused():
    made = Lemmatiser.fit([("a", "DET", "a")])
    with pytest.raises(DataError, match="an empty form has no lemma"):
        made.lemmas(["a", ""], ["DET", "DET"])
    with pytest.raises(ShapeError, match="2 forms, but 1 parts of speech"):
        made.lemmas(["a", "b"], ["DET"])
    with pytest.raises(DataError, match="word 2 has an empty form"):
        Lemmatiser.fit([("a", "DET", "a"), ("", "DET", "a")])


def test_what_is_remembered_stays_bounded(monkeypatch):
    monkeypatch.setattr(lemma_module, "_REMEMBERED", 3)
    made = Lemmatiser.fit([("cars", "NOUN", "car"), ("doors", "NOUN", "door")])
    forms = [f"{letter}s" for letter in "bcdfghjk"]
    assert made.lemmas(forms, ["NOUN"] * 8) == list("bcdfghjk")
    assert len(made._known) <= 3


def test_it_is_saved_and_loaded(tmp_path):
    made = Lemmatiser.fit([("Cars", "NOUN", "car"), ("doors", "NOUN", "door"), ("NATO", "PROPN", "NATO")])
    made.save(tmp_path / "small.lemma")
    again = Lemmatiser.load(tmp_path / "small.lemma")
    assert (again, again.fingerprint) == (made, made.fingerprint)
    assert again.lemmas(["Stars", "UNO", "CARS"], ["NOUN", "PROPN", "NOUN"]) == ["star", "UNO", "car"]
    assert [path.name for path in tmp_path.iterdir()] == ["small.lemma"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "written in format 2 by a newer Ostinato"),
        ({"format": None}, "states no format version"),
        ({"cases": {}}, "its parts have not the same parts of speech"),
        ({"words": {"": {"s": ["x"]}, "NOUN": {}}}, "'x' is not an edit"),
        ({"listed": {"": {"cars": 1}, "NOUN": {}}}, "a lemma is no text"),
        ({"listed": {"": {"cars": "bus"}, "NOUN": {"cars": "bus"}}}, "so the file was edited"),
        ({"recases": None}, "not a lemmatiser of ours"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, change, message):
    path = tmp_path / "small.lemma"
    made = Lemmatiser.fit([("cars", "NOUN", "car")])
    path.write_text(json.dumps({**made.to_json(), **change}))
    with pytest.raises(FormatError, match=message) as caught:
        Lemmatiser.load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "text").write_text("[1, 2]")
    with pytest.raises(FormatError, match="a table was expected, not a list"):
        Lemmatiser.load(tmp_path / "text")
    (tmp_path / "cut").write_text('{"format": 1, "lis')
    with pytest.raises(FormatError, match="damaged JSON"):
        Lemmatiser.load(tmp_path / "cut")
    with pytest.raises(FormatError, match="no such file; `ostinato lemma train` makes one"):
        Lemmatiser.load(tmp_path / "nowhere")


def test_scores_by_hand():
    """Of four words with a lemma: one exact, one right but for case, two wrong (the same twice)."""
    made = Lemmatiser.fit([("was", "AUX", "be"), ("Bush", "PROPN", "Bush"), ("her", "PRON", "she")])
    words = [
        Word("was", "AUX", "be"),
        Word("BUSH", "PROPN", "BUSH"),
        Word("her", "PRON", "her"),
        Word("teh", "DET", "_"),
    ]
    ours, same = evaluate(made, [*words, Word("her", "PRON", "her")])
    assert (ours.all.words, ours.all.caseless, ours.all.exact) == (4, 2, 1)
    assert ours.mistakes[0] == (2, "her", "PRON", "her", "she")
    assert {how: (tally.words, tally.caseless, tally.exact) for how, tally in ours.groups.items()} == {
        "seen": (3, 1, 1), "recased": (1, 1, 0), "ruled": (0, 0, 0),
    }  # fmt: skip
    assert (same.name, same.all.caseless, same.all.exact) == ("identity", 3, 3)
    assert ours.to_json()["exact"] == 1 / 4
    assert ours.to_json()["groups"]["ruled"] == {"words": 0, "caseless": None, "exact": None}
    with pytest.raises(DataError, match="none of 1 words has a lemma to compare with"):
        evaluate(made, words[3:])
    with pytest.raises(ConfigError, match="unknown language of simplemma 'eng'"):
        evaluate(made, words, "eng")


def test_a_pipeline_carries_what_a_lemmatiser_has_learnt(tmp_path):
    path = tmp_path / "small.lemma"
    made = Lemmatiser.fit([("cars", "NOUN", "car"), ("doors", "NOUN", "door"), ("was", "AUX", "be")])
    made.save(path)
    pipeline = Pipeline(Normaliser(["lower", f"lemma:{path}"]), make_tokeniser("blank"))
    pipeline.save(tmp_path / "text.json")
    path.unlink()
    again = Pipeline.load(tmp_path / "text.json")
    assert again == pipeline
    assert again.normalise("Was 3 stars, CARS") == "be 3 star, car"
    assert again.signature == f"blank+lower+lemma:small.lemma#{made.fingerprint}"
    assert json.loads((tmp_path / "text.json").read_text())["format"] == 2
    content = json.loads((tmp_path / "text.json").read_text())
    content["stored"][f"lemma:small.lemma#{made.fingerprint}"]["listed"][""]["cars"] = "bus"
    (tmp_path / "text.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match="so the file was edited"):
        Pipeline.load(tmp_path / "text.json")


def test_a_pipeline_without_one_stays_readable_by_older_versions():
    assert Pipeline(Normaliser(["lower", "lemma:en"]), make_tokeniser("blank")).to_json()["format"] == 1


def test_a_file_named_like_a_language_is_not_taken_for_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("en").write_text("no lemmatiser")
    assert Normaliser(["lemma:en"])("better") == "good"
    with pytest.raises(ConfigError, match=r"unknown language of 'lemma' 'my\.lemma'.*; there is no such file either"):
        Normaliser(["lemma:my.lemma"])


def test_english_is_better_than_a_dictionary(shared):
    """The bars of the test part, with its own parts of speech; simplemma has 97.5 and 94.7."""
    parts = {part: shared / "ud-en-ewt" / f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "test")}
    made = Lemmatiser.fit(read_words([parts["train"]]))
    ours, dictionary, same = evaluate(made, list(read_words([parts["test"]])), "en")
    assert ours.all.words + 15 == 25_094  # 15 have no lemma
    assert ours.all.caseless >= 0.992 * ours.all.words
    assert ours.all.exact >= 0.987 * ours.all.words
    assert 0.9750 < dictionary.all.caseless / dictionary.all.words < 0.9760
    assert dictionary.all.exact < 0.95 * dictionary.all.words
    assert same.all.caseless < 0.86 * same.all.words
    assert made.lemma("Wugs", "NOUN") == "wug"
    assert made.lemma("blogified", "VERB") == "blogify"


def test_chinese_words_are_their_own_lemmas(shared):
    with gzip.open(shared / "ud-zh-gsd-v2.0" / "zh-ud-dev.conllu.gz", "rt") as file:
        words = [line.split("\t") for line in file if "\t" in line]
    with pytest.raises(DataError, match="none of 12,663 words has a lemma"):  # that release leaves them out
        Lemmatiser.fit((word[1], word[3], word[2]) for word in words)
    made = Lemmatiser.fit((word[1], word[3], word[1]) for word in words[:9000])
    assert all(made.lemma(word[1], word[3]) == word[1] for word in words)
