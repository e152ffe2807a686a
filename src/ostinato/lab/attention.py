"""Attention: what translators look at, side by side, and the hypotheses of their beams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Response

from ostinato.core.config import read_toml
from ostinato.core.errors import MismatchError, OstinatoError
from ostinato.lab.answers import answer, arrays
from ostinato.lab.page import Page
from ostinato.lab.shelf import Shelf, TheShelf
from ostinato.tasks.task import PredictOptions

if TYPE_CHECKING:
    from ostinato.tasks.translation.predict import TranslationPredictor

page = Page("attention", needs_runs=True)

EXAMPLES = 12
"""Sentences of a run's validation data that are offered."""


@page.router.get("/runs")
def runs(shelf: TheShelf) -> Response:
    """The translators, with what each looks with and the data it has learnt from; of other runs, what they are."""
    kinds = shelf.kinds()
    offered = [described(shelf, name) for name, kind in kinds.items() if kind == "translation"]
    others = [{"name": name, "kind": kind} for name, kind in kinds.items() if kind != "translation"]
    return answer({"runs": offered, "others": others})


def described(shelf: Shelf, name: str) -> dict[str, Any]:
    """A translator, from its configuration alone: no weights are read."""
    from ostinato.tasks.working import config_from

    path = shelf.path(name) / "config.toml"
    try:
        config = config_from("translation", read_toml(path), str(path))
    except OstinatoError as fault:
        return {"name": name, "attention": None, "data": None, "error": str(fault)}
    return {"name": name, "attention": config.model.attention, "data": " ".join(config.data.train)}


@page.router.get("/examples")
def examples(shelf: TheShelf, run: str) -> Response:
    """The first sources of a run's validation data, and how many there are; none where that cannot be read."""
    try:
        sources = shelf.kept(run, sources_of)
    except OstinatoError:
        sources = []  # what is wrong with the run is said where it translates
    return answer({"sources": sources[:EXAMPLES], "total": len(sources)})


def sources_of(path: Path) -> list[str]:
    """The sources a run was judged on while it was trained."""
    from ostinato.tasks.translation.data import Corpus

    return [pair.source for pair in Corpus.open(path / "data", ("valid",)).parts.get("valid", [])]


@page.router.get("/translate")
def translate(
    shelf: TheShelf,
    run: Annotated[list[str], Query(min_length=1, max_length=12)],
    text: Annotated[str, Query(max_length=5000)],
    beam: Annotated[int, Query(ge=1, le=20)],
) -> Response:
    """The hypotheses of each run for one text, as `ostinato predict --nbest --align` gives them.

    The weights [target, source] of hypothesis h of run r are the array "r/h". A run that cannot answer has its `error`.
    """
    weights, about = {}, []
    for place, name in enumerate(run):
        facts: dict[str, Any] = {"name": name, "hypotheses": []}
        try:
            predictor = shelf.kept(name, translator_of)
            attention = predictor.config.model.attention
            options = PredictOptions(nbest=beam, beam=beam, align=attention != "none")
            facts |= {"attention": attention, "length_penalty": predictor.length_penalty}
            for rank, found in enumerate(predictor.hypotheses(" ".join(text.splitlines()), options)):
                words: dict[str, Any] = {"text": found.text, "log_prob": found.log_prob}
                if found.alignment is not None:
                    weights[f"{place}/{rank}"] = found.alignment.weights
                    words |= {"source": found.alignment.source, "target": found.alignment.target}
                facts["hypotheses"].append(words)
        except OstinatoError as fault:
            facts["error"] = str(fault)
        about.append(facts)
    return arrays(weights, runs=about)


def translator_of(path: Path) -> TranslationPredictor:
    """What translates with a run. Raises MismatchError for a run of another kind, FormatError for a damaged one."""
    from ostinato.tasks import working
    from ostinato.tasks.translation.predict import TranslationPredictor

    found = working.load(path)
    if not isinstance(found, TranslationPredictor):
        raise MismatchError(f"{path}: not a translator; `ostinato predict {path} FILE` shows what it answers")
    return found
