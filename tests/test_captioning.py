"""The captioning task: what it learns and says, that it is exact, what it reads, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from captioning_toys import config, loaded, picture_file, regions, save, squares, trained
from ostinato.cli.app import run as cli
from ostinato.core.errors import ConfigError, DataError, MismatchError, OstinatoError
from ostinato.core.progress import unwatched
from ostinato.runs import TASK, RunDir
from ostinato.tasks import working
from ostinato.tasks.attention_over_picture import DARKEST, lit, spread
from ostinato.tasks.captioning.answers import captions_of, looked_at
from ostinato.tasks.captioning.data import moments
from ostinato.tasks.captioning.options import DataOptions
from ostinato.tasks.captioning.seen import Looking
from ostinato.tasks.captioning.sources import open_source
from ostinato.tasks.captioning.task import TASK as CAPTIONING
from ostinato.tasks.cross_validation import cross_validate
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.task import PredictOptions
from ostinato.tasks.translation.alignment import Alignment
from ostinato.tasks.translation.answers import Asking
from stopping import stopped_at


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("captioning")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> RunDir:
    """Says the colours of two squares; trained well enough to be right nearly always."""
    data = {"test": (picture_file(folder / "test.npz", 60, seed=1),)}
    return trained(config(picture_file(folder / "train.npz", 400), data), folder / "pairs")


@pytest.fixture(scope="module")
def places(folder: Path) -> RunDir:
    """Says features at one to four places in their order."""
    data = {"test": (save(folder / "places-test.npz", **regions(60, seed=1)),)}
    train = save(folder / "places.npz", **regions(600))
    return trained(config(train, data, {"encoder": "grid"}, epochs=8), folder / "places")


def answers(run: RunDir, source: str, **options: Any) -> list[str]:
    return list(loaded(run).predict(source, PredictOptions(**options)))


def test_it_learns_to_say_what_it_sees(pairs: RunDir, places: RunDir) -> None:
    for run, name in ((pairs, "test.npz"), (places, "places-test.npz")):
        report = loaded(run).evaluate((), unwatched)
        assert report.measure == "% exact"
        assert report.value >= 95
        assert report.count == 60
        assert report.measures["bleu"] >= 90
        assert f"data:{name}#" in report.signature
        assert "search:beam3+penalty0" in report.signature


def test_each_word_looks_at_its_place(places: RunDir, folder: Path, tmp_path: Path) -> None:
    wide = regions(40, seed=3)
    hits = total = 0
    for line in answers(places, save(tmp_path / "x.npz", **wide), align=True):
        for mark in line.split("\t")[1].split():
            place, word = map(int, mark.split("-"))
            hits, total = hits + (place == word), total + 1
    assert hits / total > 0.9
    seen = loaded(places).look(f"{tmp_path / 'x.npz'}:1")
    assert isinstance(seen, Alignment)
    assert seen.source == tuple(str(place) for place in range(1, int(wide["places"][0]) + 1))


def test_batches_change_no_caption_and_scores_are_those_of_saying_it(pairs: RunDir, places: RunDir) -> None:
    for run in (pairs, places):
        predictor = loaded(run)
        part = CAPTIONING.learner(predictor.config, run.path / "data").valid.part
        pictures = [part.picture(place) for place in range(min(20, len(part)))]
        asking = Asking(3, 0.6, 2)
        whole = captions_of(predictor.exact, pictures, predictor.corpus, asking)
        some = captions_of(predictor.exact, pictures[::-1], predictor.corpus, Asking(3, 0.6, 2, rows=3))[::-1]
        said = looked_at(predictor.exact, pictures, [row[0] for row in whole], predictor.corpus, 4)
        for several, other, looked in zip(whole, some, said, strict=True):
            assert [one.tokens for one in several] == [one.tokens for one in other]
            assert [one.log_prob for one in several] == pytest.approx([one.log_prob for one in other], abs=1e-4)
            assert looked.log_probs.sum() == pytest.approx(several[0].log_prob, abs=1e-4)
            assert len(looked.log_probs) == len(several[0].tokens) + several[0].finished


def test_the_loss_hangs_on_no_batch_and_validation_judges_as_evaluation_does(pairs: RunDir, folder: Path) -> None:
    predictor = loaded(pairs)
    learner = CAPTIONING.learner(predictor.config, pairs.path / "data")
    learner.network.load_state_dict(predictor.network.state_dict())
    learner.network.eval()
    rows = np.array([5, 0, 17, 3])
    whole = learner.loss(rows).item()
    assert whole == pytest.approx(sum(learner.loss(np.array([row])).item() for row in rows), rel=1e-5)
    found, part = learner.validate(), learner.corpus.parts["valid"]
    captions = np.array([item.targets[0] for item in part.items])
    file = save(folder / "again.npz", images=part.values, captions=captions)
    greedy = working.load(pairs.path)
    object.__setattr__(greedy, "config", config("none", beam=1))
    report = greedy.evaluate([file], unwatched)
    assert found.worth == pytest.approx(-report.value)
    assert found.loss == pytest.approx(report.measures["nats"], rel=1e-5)


def test_channels_are_standardised_by_the_training_data_alone(places: RunDir) -> None:
    predictor = loaded(places)
    part = CAPTIONING.learner(predictor.config, places.path / "data").train.part
    rows = np.concatenate([part.picture(place) for place in range(len(part))])
    mean, deviation = moments(part)
    np.testing.assert_allclose(mean, rows.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(deviation, rows.std(axis=0), atol=1e-6)
    np.testing.assert_allclose(predictor.network.encoder.mean.numpy(), mean, atol=1e-6)
    np.testing.assert_allclose(1 / predictor.network.encoder.scale.numpy(), deviation, rtol=1e-5)


def weights(run: RunDir) -> bytes:
    arrays, _ = run.load_checkpoint() or ({}, {})
    return (run.path / "model.safetensors").read_bytes() + b"".join(arrays[name].tobytes() for name in sorted(arrays))


@pytest.mark.parametrize("stop_at", [2, 7])
def test_training_stopped_and_resumed_is_training_uninterrupted(stop_at: int, tmp_path: Path) -> None:
    train = picture_file(tmp_path / "t.npz", 60)
    plan = config(train, model={"dropout": 0.3, "label_smoothing": 0.1}, epochs=3, rows=20)
    whole = trained(plan, tmp_path / "whole")
    with stopped_at(stop_at):
        trained(plan, tmp_path / "parts")
    Path(train).unlink()
    assert weights(working.resume(tmp_path / "parts", Callbacks())) == weights(whole)


def test_a_loaded_run_says_the_same_in_a_fresh_process(pairs: RunDir, folder: Path) -> None:
    source = str(folder / "test.npz")
    command = [sys.executable, "-m", "ostinato", "predict", str(pairs.path), source, "--scores", "--nbest", "2"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == answers(pairs, source, scores=True, nbest=2)


def test_pictures_in_files_are_read_from_lines_folders_and_names(
    pairs: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    images, captions = squares(120, seed=5)
    home = tmp_path / "pictures"
    home.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).resize((16, 8), Image.Resampling.NEAREST).save(home / f"{number:03}.png")
    lines = [f"{number:03}.png\t{caption}\n" for number, caption in enumerate(captions.tolist())]
    lines.append(f"000.png\tanother way to say {captions[0]}\n")
    (home / "captions.tsv").write_text("".join(lines))
    data = {"height": 4, "width": 8}
    notes: list[str] = []
    run = trained(config(str(home), data, epochs=1), tmp_path / "run", notes)
    assert "pictures of 4 x 8 x 3" in notes[0]
    assert loaded(run).evaluate([str(home / "captions.tsv")], unwatched).count == 120
    options = DataOptions(**data)  # type: ignore[arg-type]
    given = list(open_source(str(home), options, captioned=True).items)
    assert given[0].captions == (captions[0], f"another way to say {captions[0]}")
    by_lines = answers(run, str(home / "captions.tsv"))
    assert [line.split("\t")[0] for line in by_lines] == [f"{number:03}.png" for number in range(120)]
    assert answers(run, str(home)) == by_lines
    (alone,) = answers(run, str(home / "007.png"), json=True)
    assert json.loads(alone)["picture"] == str(home / "007.png")
    assert json.loads(alone)["answer"] == by_lines[7].split("\t")[1]
    names = subprocess.run(
        [sys.executable, "-m", "ostinato", "predict", str(run.path)],
        input=f"{home}/003.png\n{home}/001.png\n",
        capture_output=True,
        check=True,
        text=True,
    )
    assert [line.split("\t")[1] for line in names.stdout.splitlines()] == [
        by_lines[3].split("\t")[1],
        by_lines[1].split("\t")[1],
    ]


def test_any_of_several_captions_is_right(tmp_path: Path) -> None:
    images, captions = squares(300)
    both = np.array([[one, "a picture of " + one] for one in captions.tolist()])
    both[:10, 1] = ""
    run = trained(config(save(tmp_path / "t.npz", images=images, captions=both), epochs=5), tmp_path / "run")
    report = loaded(run).evaluate((), unwatched)
    assert report.value >= 90
    once = save(tmp_path / "once.npz", images=images[:40], captions=captions[:40])
    other = save(tmp_path / "other.npz", images=images[:40], captions=both[:40])
    said = loaded(run)
    assert said.evaluate([other], unwatched).value >= said.evaluate([once], unwatched).value


def test_attention_is_drawn_over_the_picture(pairs: RunDir, places: RunDir, tmp_path: Path) -> None:
    seen = loaded(pairs).look("3")
    assert isinstance(seen, Looking)
    assert seen.picture is not None
    assert seen.picture.shape == (4, 8, 3)
    assert seen.layout == (2, 4)
    assert seen.weights.shape == (4, 8)
    np.testing.assert_allclose(seen.weights.sum(axis=1), 1, atol=1e-5)
    left = seen.weights[1].reshape(2, 4)[:, :2].sum()
    right = seen.weights[3].reshape(2, 4)[:, 2:].sum()
    assert left + right > 1.2  # the first colour is looked for on the left, the second on the right
    for run, item in ((pairs, "2"), (places, "2")):
        assert cli(["plot", str(run.path), "--attention", item, "--out", str(tmp_path / "seen"), "-q"]) == 0
        assert (tmp_path / "seen.svg").read_text("utf8").startswith("<?xml")
        first = (tmp_path / "seen.png").read_bytes()
        assert cli(["plot", str(run.path), "--attention", item, "--out", str(tmp_path / "seen"), "-q"]) == 0
        assert (tmp_path / "seen.png").read_bytes() == first


def test_light_falls_on_the_pixels_that_a_place_was_made_from() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    light = spread(weights, 7, 9)  # two halvings: places of four pixels, the last ones cut
    assert light.shape == (7, 9)
    assert [light[row, column] for row, column in ((0, 0), (3, 3), (4, 3), (3, 4), (6, 8), (0, 8))] == [
        0,
        0,
        3,
        1,
        5,
        2,
    ]
    colours = np.full((7, 9, 3), 0.8, np.float32)
    shown = lit(colours, weights)
    np.testing.assert_allclose(shown[6, 8], 0.8, atol=1e-6)  # where it looked most, as it is
    np.testing.assert_allclose(shown[0, 0], 0.8 * DARKEST, atol=1e-6)
    grey = lit(colours[:, :, 0], weights)
    assert grey.shape == (7, 9, 3)
    assert grey[6, 8, 0] > grey[6, 8, 2]
    assert grey[0, 0, 0] < grey[0, 0, 2]


def test_a_configuration_trains_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('task = "captioning"\n[model]\nhidden = 8\nembedding = 8\nchannels = [4]\n[train]\nepochs = 1\n')
    train = picture_file(tmp_path / "t.npz", 60)
    command = ["train", str(plan), "--data.train", train, "--run-dir", str(tmp_path / "run"), "--json", "-q"]
    assert cli([*command, "--train.threads", "1"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["measure"] == "BLEU"
    assert {"bleu", "exact", "edits", "nats", "length_ratio"} <= said["measures"].keys()
    assert cli(["predict", str(tmp_path / "run"), train, "--precision", "bf16", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 60
    assert json.loads(lines[4])["picture"] == "t.npz:5"


def test_files_of_pictures_are_read_in_grey_where_training_pictures_were(tmp_path: Path) -> None:
    images, captions = squares(60)
    grey = images[..., 0]
    run = trained(config(save(tmp_path / "t.npz", images=grey, captions=captions), epochs=1), tmp_path / "run")
    for number in range(3):
        Image.fromarray(grey[number]).save(tmp_path / f"{number}.png")
    some = save(tmp_path / "some.npz", images=grey[:3])
    for number, line in enumerate(answers(run, some)):
        assert answers(run, str(tmp_path / f"{number}.png")) == [f"{tmp_path / f'{number}.png'}\t{line}"]


def test_features_in_a_grid_know_their_layout(tmp_path: Path) -> None:
    found = regions(80)
    grid = found["features"].reshape(80, 2, 2, 6)
    train = save(tmp_path / "t.npz", features=grid, captions=found["captions"])
    run = trained(config(train, model={"encoder": "grid"}, epochs=1), tmp_path / "run")
    seen = loaded(run).look("1")
    assert isinstance(seen, Looking)
    assert seen.layout == (2, 2)
    assert seen.picture is None
    assert seen.source == ("1,1", "1,2", "2,1", "2,2")
    flat = save(tmp_path / "flat.npz", features=found["features"][:, 0], captions=found["captions"])
    fixed = {"encoder": "vector", "attention": "none"}
    notes: list[str] = []
    vectors = trained(config(flat, model=fixed, epochs=1), tmp_path / "flat", notes)
    assert "features of 1 x 6" in notes[0]
    with pytest.raises(ConfigError, match="looks at no place"):
        loaded(vectors).look("1")


def broken(home: Path) -> Iterator[tuple[str, str]]:
    """Data that cannot be used, and what is said of it."""
    images, captions = squares(20)
    yield save(home / "both.npz", images=images, features=images, captions=captions), "give one of `images`"
    yield save(home / "none.npz", captions=captions), "give one of `images`"
    yield save(home / "bare.npz", images=images), "there are no `captions`"
    yield save(home / "short.npz", images=images, captions=captions[:3]), "strings \\[20\\]"
    yield save(home / "numbers.npz", images=images, captions=np.arange(20)), "strings \\[20\\]"
    yield save(home / "empty.npz", images=images, captions=np.array(["a"] * 19 + [" "])), "item 20 has no caption"
    yield save(home / "object.npz", images=images, captions=np.array(captions, object)), "np.array"
    yield save(home / "flat.npz", images=images[0, 0], captions=captions), "3 or 4 dimensions"
    spoilt = images.astype(float)
    spoilt[6, 0, 0, 0] = np.nan
    yield save(home / "nan.npz", images=spoilt, captions=captions), "item 7 has a number that is not finite"
    places = np.full(20, 9)
    yield save(home / "far.npz", features=np.ones((20, 3, 2)), places=places, captions=captions), "from 1 to 3"
    (home / "no.npz").write_bytes(b"PK\3\4 not a zip")
    yield str(home / "no.npz"), "not a .npz file"
    yield str(home / "gone.npz"), "no such file"
    (home / "lines.tsv").write_text("a.png\tone\nb.png\n")
    yield str(home / "lines.tsv"), "lines.tsv:2: a line is FILE<TAB>CAPTION"
    (home / "names.tsv").write_text("gone.png\tone\n")
    yield str(home / "names.tsv"), "names.tsv:1: there is no picture"
    (home / "text.png").write_text("not a picture")
    (home / "text.tsv").write_text("text.png\tone\n")
    yield str(home / "text.tsv"), "text.tsv:1: .*cannot be read as a picture"
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(home / "deep.png")
    (home / "deep.tsv").write_text("deep.png\tone\n")
    yield str(home / "deep.tsv"), "not bytes; give it in a .npz"
    Image.fromarray(images[0]).save(home / "one.png")
    Image.fromarray(images[0]).resize((3, 3)).save(home / "two.png")
    (home / "sizes.tsv").write_text("one.png\tone\ntwo.png\ttwo\n")
    yield str(home / "sizes.tsv"), "sizes.tsv:2: of shape \\(3, 3, 3\\)"
    yield str(home / "one.png"), "has no caption"


def test_data_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path) -> None:
    for source, message in broken(tmp_path):
        with pytest.raises(DataError, match=message):
            trained(config(source, {"valid": (source,)}), tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_what_makes_no_sense_is_refused(
    pairs: RunDir, places: RunDir, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, other = str(folder / "test.npz"), str(folder / "places-test.npz")
    kinds: tuple[tuple[type[OstinatoError], str, str, dict[str, Any]], ...] = (
        (MismatchError, "places-test.npz:1: a source of shape", other, {}),
        (ConfigError, "--online means nothing for captioning", source, {"online": True}),
        (ConfigError, "--tokens means nothing for captioning", source, {"tokens": 9}),
        (ConfigError, "a beam of 3 holds 1 to 3 captions", source, {"nbest": 4}),
        (DataError, "no such file or folder", str(tmp_path / "gone"), {}),
        (DataError, "no picture", str(tmp_path), {}),
    )
    for kind, message, path, options in kinds:
        with pytest.raises(kind, match=message):
            answers(pairs, path, **options)
    for item, message in (("0", "has items 1 to 60"), ("61", "has items 1 to 60"), (f"{source}:99", "no such item")):
        with pytest.raises(DataError, match=message):
            loaded(pairs).look(item)
    train = str(folder / "train.npz")
    with pytest.raises(ConfigError, match="grid reads features"):
        trained(config(train, model={"encoder": "grid"}), tmp_path / "run")
    with pytest.raises(DataError, match="every caption has more than"):
        trained(config(train, longest=1), tmp_path / "run")
    with pytest.raises(ConfigError, match="bleu is 0 for captions of fewer than four words"):
        trained(config(save(tmp_path / "p.npz", **regions(30, most=3)), measure="bleu"), tmp_path / "run")
    with pytest.raises(ConfigError, match="names no file"):
        working.train("captioning", config(train, {"train": ()}), tmp_path / "run", Callbacks())
    for wrong in ({"height": 3}, {"bpe_pieces": 400}, {"tokeniser": "byte", "min_count": 2}):
        with pytest.raises(ValueError, match=r"together|bpe_pieces|min_count"):
            DataOptions(**wrong)  # type: ignore[arg-type]


def test_every_item_is_judged_once_in_cross_validation(tmp_path: Path) -> None:
    train = picture_file(tmp_path / "t.npz", 40)
    found = cross_validate("captioning", config(train, epochs=1), tmp_path / "folds", 2, (1,), Callbacks())
    assert found.counts == (20, 20)
    assert found.measure == "% exact"
    seen = [
        CAPTIONING.load(RunDir.open(path, TASK)).corpus.names["test"]
        for path in sorted((tmp_path / "folds").glob("seed*"))
    ]
    assert seen == ["t.npz/fold-1-of-2", "t.npz/fold-2-of-2"]
