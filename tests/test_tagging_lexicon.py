"""Words as numbers, labels as numbers, and how files are read, all by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError
from ostinato.core.progress import unwatched
from ostinato.tasks.tagging.data import Labels, labels_of
from ostinato.tasks.tagging.lexicon import LONGEST_WORD, SHAPES, Lexicon, affixes_of, made, shape_of
from ostinato.tasks.tagging.options import DataOptions, ModelOptions
from ostinato.tasks.tagging.reading import Tagged, found_source, read_tagged
from ostinato.text.schemes import well_formed
from tagging_toys import chinese, columns, conllu, entities, segmented, write

TEXT = [("The", "cat", "sat"), ("the", "cat", "The", "cat"), ("Sat", "", "12")]


def lexicon(**options: object) -> Lexicon:
    data = {name: options.pop(name) for name in ("normalise", "min_count", "limit", "unit") if name in options}
    return made(DataOptions(**data), ModelOptions(**options), TEXT)  # type: ignore[arg-type]


def test_words_are_looked_up_normalised_and_spelled_as_they_stand() -> None:
    found = lexicon(normalise=("lower",), min_count=2)
    assert set(found.words.pieces[2:-2]) == {"the", "cat", "sat"}
    encoded = found.encode([("THE", "cat", "dog"), ("cat",)])
    assert [row.tolist() for row in encoded.sentences] == [[0, 1, 2], [1]]
    assert encoded.forms.words.tolist() == found.words.ids(["the", "cat", "<unk>"]).tolist()
    assert found.letters is not None
    start, stop, pad, unknown = (getattr(found.letters, name) for name in ("start", "stop", "pad", "unknown"))
    spelled = encoded.forms.spelled(np.array([1, 0]), pad)
    cat = [start, *found.letters.ids("cat").tolist(), stop]
    assert spelled.tolist() == [cat, [start, found.letters.ids("T")[0], unknown, unknown, stop]]
    mixed = found.forms(["cat", ""])
    assert mixed.spelled(np.array([0, 1]), pad).tolist() == [cat, [start, stop, pad, pad, pad]]
    assert mixed.lengths.tolist() == [5, 2]


def test_of_a_very_long_word_the_beginning_and_the_end_are_read() -> None:
    found = lexicon()
    assert found.letters is not None
    forms = found.forms(["c" * 500 + "a" * 500])
    half = LONGEST_WORD // 2
    wanted = [found.letters.start, *found.letters.ids("c" * half + "a" * half).tolist(), found.letters.stop]
    assert forms.letters.tolist() == wanted


def test_affixes_and_shapes_by_hand() -> None:
    assert list(affixes_of("Cats", 3)) == ["c-", "-s", "ca-", "-ts", "cat-", "-ats"]
    assert list(affixes_of("a", 2)) == ["a-", "-a", "a-", "-a"]
    shapes = ["cat", "Cat", "CAT", "I", "iPod", "1,000", "B2B", "書", "...", ""]
    assert [SHAPES[shape_of(word)] for word in shapes] == list(SHAPES)
    found = lexicon(affixes=2, affix_count=3)
    assert found.affixes is not None
    assert set(found.affixes.pieces[2:-2]) == {"-t", "-at", "-"}  # of cat, sat and Sat; four times of ""
    assert found.forms(["rat"]).affixes.tolist() == found.affixes.ids(["r-", "-t", "ra-", "-at"])[None].tolist()


def test_pairs_are_those_seen_twice_with_the_start_symbol_as_a_word() -> None:
    """`The cat` twice, `the cat` once; `The` begins a sentence once, `the` once; in lower case all that three times."""
    found = lexicon(pairs=True, normalise=("lower",))
    the, cat = found.words.ids(["the", "cat"]).tolist()
    size = len(found.words)
    assert found.pairs.tolist() == sorted([found.words.start * size + the, the * size + cat])
    assert lexicon(pairs=True).pairs.size == 1
    assert lexicon(unit="character").pairs.size > 0
    assert lexicon().pairs.size == 0


def test_a_lexicon_is_kept_whole_and_every_part_changes_its_fingerprint(tmp_path: Path) -> None:
    found = lexicon(affixes=2, pairs=True)
    found.save(tmp_path)
    again = Lexicon.load(tmp_path)
    assert again.fingerprint == found.fingerprint
    assert again.forms(["cat", "x"]).letters.tolist() == found.forms(["cat", "x"]).letters.tolist()
    others = [{}, {"affixes": 1}, {"shapes": False}, {"letters": "none"}, {"normalise": ("lower",)}, {"pairs": True}]
    prints = [lexicon(**options).fingerprint for options in others]
    assert len({*prints, found.fingerprint}) == len(others) + 1


def tagged(*rows: str) -> list[Tagged]:
    return [Tagged(tuple(row.split()), tuple(row.split()), "x:1") for row in rows]


def test_labels_are_completed_so_that_every_sentence_has_a_well_formed_answer() -> None:
    found = labels_of(tagged("B-X I-X O", "O B-Y"), DataOptions(), "bioes", "x")
    assert set(found.names) == {"O", *(f"{letter}-{label}" for letter in "BIES" for label in "XY")}
    assert found.known == {"O", "B-X", "I-X", "B-Y", "I-Y"}
    words = labels_of(tagged("B E B E", "B E"), DataOptions(unit="character"), None, "x")
    assert set(words.names) == {"B", "M", "E", "S"}


def test_labels_go_to_numbers_and_back_in_another_scheme() -> None:
    found = labels_of(tagged("B-X I-X O B-X"), DataOptions(), "bioes", "x")
    numbers = found.numbers(["B-X", "I-X", "I-X", "O", "B-X", "B-Z", "Q"])
    assert [found.names[number] if number >= 0 else "?" for number in numbers] == [
        *("B-X", "I-X", "E-X", "O", "S-X", "?", "?")
    ]
    assert found.answers(numbers[:5].tolist()) == ["B-X", "I-X", "I-X", "O", "B-X"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), min_size=1, max_size=9))
def test_well_formed_labels_survive_every_scheme(tags: list[str]) -> None:
    given_labels = tagged("B-X I-X O B-Y I-Y")
    if not well_formed(tags, "bio"):
        return
    for learnt in ("bio", "bioes", "bilou", "bmes", "iob1"):
        found = labels_of(given_labels, DataOptions(scheme="bio"), learnt, "x")
        assert found.answers(found.numbers(tags).tolist()) == tags


def test_labels_of_other_schemes_than_asked_for_are_refused() -> None:
    with pytest.raises(ConfigError, match="scheme none, but the labels of x are in the scheme bio"):
        labels_of(tagged("B-X O"), DataOptions(), "none", "x")
    assert labels_of(tagged("B-X O"), DataOptions(scheme="none"), None, "x") == Labels(("B-X", "O"), "none", "none")


def test_how_a_file_is_written_is_found_out(tmp_path: Path) -> None:
    rows = entities(3)
    conll = found_source(write(tmp_path / "a", columns(rows, " ")), DataOptions())
    assert (conll.form, conll.unit, conll.column, conll.separator) == ("conll", "word", 1, " ")
    ud = found_source(write(tmp_path / "b", conllu(rows)), DataOptions(column="4"))
    assert (ud.form, ud.column) == ("conllu", "xpos")
    assert found_source(str(tmp_path / "b"), DataOptions()).column == "upos"
    text = found_source(write(tmp_path / "c", segmented(chinese(3))), DataOptions(unit="character"))
    assert (text.form, text.unit, text.column) == ("segmented", "character", None)
    cut = found_source(write(tmp_path / "d", conllu(chinese(3))), DataOptions(unit="character"))
    assert (cut.form, cut.column) == ("conllu", None)
    plain, labelled = (
        read_tagged(text, [str(tmp_path / "c")], unwatched),
        read_tagged(cut, [str(tmp_path / "d")], unwatched),
    )
    assert [row.words for row in plain] == [row.words for row in labelled]
    assert [row.labels for row in plain] == [row.labels for row in labelled]
    assert [row.where for row in plain] == ["c:1", "c:2", "c:3"]
