"""What is in a run, as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ostinato.core import state as states
from ostinato.core.config import flatten
from ostinato.core.files import read_json
from ostinato.runs import RunDir
from ostinato.tasks.inspect import origin, progress
from ostinato.tasks.language.compare import disk_bytes, mixture_weights
from ostinato.tasks.language.evaluate import own_stream
from ostinato.tasks.language.load import load, load_config
from ostinato.tasks.options import Config


def describe(path: str | Path) -> dict[str, Any]:
    """Groups of facts: `run`, `model`, `text`, `options`, `training`, `score`; without a model only what there is.

    Raises FormatError if the run is damaged.
    """
    run = RunDir.open(path)
    facts: dict[str, Any] = {"run": origin(run)}
    if (run.path / "model.safetensors").is_file():
        facts |= _model(run)
    if not (run.path / "members").is_dir():
        facts["options"] = options_of(load_config(run))
    facts |= progress(run)
    if (run.path / "score.json").is_file():
        facts["score"] = read_json(run.path / "score.json")
    return facts


def options_of(config: Config) -> dict[str, Any]:
    """Every option that had an effect, under its dotted key, with the defaults of the model's kind filled in."""
    model = {"model.kind": config.model.kind} | flatten(config.model.resolve(), "model.")
    if config.model.vectors:
        model |= {"model.vectors": config.model.vectors, "model.frozen": bool(config.model.frozen)}
    train = {} if config.model.kind == "ngram" else flatten(config.train, "train.")
    return flatten(config.data, "data.") | model | train


def _model(run: RunDir) -> dict[str, Any]:
    loaded = load(run.path)
    state = loaded.model.init_state(1)
    model: dict[str, Any] = {
        "kind": loaded.kind,
        "parameters": loaded.parameters,
        "model_bytes": disk_bytes(run),
        "state_bytes": states.nbytes(state),
        "regime": loaded.regime,
        "training_seconds": run.training_seconds(),
    }
    if loaded.kind == "ngram":
        model |= {key: str(value) for key, value in loaded.about["table"].items()}
    if loaded.kind == "mixture":
        model["members"] = ", ".join(f"{weight:.4f} {name}" for name, weight in mixture_weights(loaded))
    text: dict[str, Any] = {
        "outputs": loaded.vocabulary.outputs,
        "vocabulary": loaded.vocabulary.fingerprint,
        "pieces": loaded.pipeline.signature,
    }
    for part in ("train", "valid", "test"):
        if (run.path / "data" / part).is_dir():
            stream = own_stream(loaded, part)
            text[part] = f"{len(stream):,} tokens, {stream.lines:,} lines, {stream.characters:,} characters"
            text[f"{part} data"] = stream.data
    return {"model": model, "text": text}
