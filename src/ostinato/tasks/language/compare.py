"""Models side by side on one text, and mixtures of them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core import state as states
from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.score import Score
from ostinato.mix import Mixture, fit_weights
from ostinato.runs import RunDir
from ostinato.tasks.language.evaluate import (
    batch_log_probs,
    encode_texts,
    evaluate_stream,
    evaluation_batches,
    final_stream,
    own_stream,
    speed,
)
from ostinato.tasks.language.load import Loaded, load
from ostinato.text.stream import TokenStream


@dataclass(frozen=True)
class Row:
    """One model of a comparison. Sizes in bytes, times in seconds; state_bytes is what one stream keeps."""

    run: str
    kind: str
    score: Score
    parameters: int
    disk_bytes: int
    state_bytes: int
    tokens_per_second: float
    training_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain values; the score's keys stand beside the others."""
        return {**asdict(self), "score": None} | self.score.to_json()


def compare(
    runs: Sequence[Loaded], texts: Sequence[str], regime: str | None = None, watch: Watch = unwatched
) -> list[Row]:
    """Every model on the same text: the given files, or the test text of each run if none is given.

    Raises DataError, FormatError. Scores with different signatures are the caller's to keep apart.
    """
    rows = []
    for loaded in runs:
        stream = encode_texts(loaded, texts, watch) if texts else final_stream(loaded)
        used = regime or loaded.regime
        score = evaluate_stream(loaded.model, stream, loaded.pipeline, used, watch, trained=loaded.regime)
        rows.append(
            Row(
                loaded.name,
                loaded.kind,
                score,
                loaded.parameters,
                disk_bytes(loaded.run),
                states.nbytes(loaded.model.init_state(1)),
                speed(loaded.model, stream, used),
                loaded.run.training_seconds(),
            )
        )
    return rows


def disk_bytes(run: RunDir) -> int:
    """Bytes of the model file, and of those of the runs inside a mixture."""
    inside = [RunDir(path) for path in (run.path / "members").glob("[0-9]*")]
    return run.model_bytes + sum(disk_bytes(member) for member in inside)


def token_log_probs(loaded: Loaded, stream: TokenStream, regime: str, watch: Watch = unwatched) -> NDArray[np.float64]:
    """The log-probs (nats) of every target of a stream, in the order of its batches."""
    parts, done = [], 0
    batches = evaluation_batches(regime, stream, loaded.vocabulary)
    for batch, log_probs in batch_log_probs(loaded.model, batches):
        parts.append(log_probs[batch.weight > 0].astype(np.float64))
        done += len(parts[-1])
        watch(Progress(f"score with {loaded.name}", done, done / len(stream)))
    return np.concatenate(parts)


def mix(paths: Sequence[str | Path], texts: Sequence[str], run_dir: str | Path, watch: Watch = unwatched) -> RunDir:
    """Make a mixture whose weights are fitted by EM on validation text; the new run holds copies of its members.

    texts: validation files, or none for the validation text of the first run.
    Raises ConfigError for fewer than two members or files alone, MismatchError if their vocabularies, pieces or regimes
    differ, StorageError if `run_dir` exists.
    """
    if len(paths) < 2:
        raise ConfigError(f"a mixture needs at least two runs, got {len(paths)}")
    loaded = [load(path) for path in paths]
    first = loaded[0]
    for other in loaded[1:]:
        for what, a, b in (
            ("vocabularies", first.vocabulary.fingerprint, other.vocabulary.fingerprint),
            ("pieces", first.pipeline.signature, other.pipeline.signature),
            ("regimes", first.regime, other.regime),
        ):
            if a != b:
                raise MismatchError(
                    f"{first.run} and {other.run} have different {what} ({a} and {b}); "
                    "train them on the same text with the same data options"
                )
    donor = next((one for one in loaded if one.run.path.is_dir()), None)
    if donor is None:
        raise ConfigError("a mixture of files alone has no text of its own; mix them with at least one run directory")
    final_stream(donor)  # a damaged test text is found before anything is made
    with RunDir.create(run_dir) as part:
        stream = encode_texts(first, texts, watch) if texts else own_stream(donor, "valid")
        log_probs = np.stack([token_log_probs(one, stream, first.regime, watch) for one in loaded])
        weights = fit_weights(log_probs)
        _write_mixture(part, donor, loaded, weights)
    return RunDir.open(run_dir)


def _write_mixture(part: RunDir, first: Loaded, loaded: Sequence[Loaded], weights: NDArray[np.float64]) -> None:
    """Fill a new run: copies of the members, the text of the `first` run directory among them, the weights."""
    for place, member in enumerate(loaded):
        copy_run(member.run.path, part.path / "members" / str(place))
    shutil.copytree(first.run.path / "data", part.path / "data", ignore=shutil.ignore_patterns("train"))
    part.write_config((first.run.path / "config.toml").read_text("utf8"))
    model = Mixture([one.model for one in loaded], weights)
    about = {
        "vocabulary": first.vocabulary.fingerprint,
        "parameters": sum(one.parameters for one in loaded),
        "regime": first.regime,
        "empty_lines": first.about.get("empty_lines", "skip"),
        "members": len(loaded),
        "names": [one.name for one in loaded],
    }
    part.save_model("mixture", {"weights": np.asarray(model.weights, np.float64)}, about)


def copy_run(source: Path, target: Path) -> None:
    """Copy what a run needs in order to be loaded, members of a mixture included; a model file is copied as it is."""
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
        return
    (target / "data").mkdir(parents=True)
    for name in ("config.toml", "environment.json", "model.safetensors", "data/vocabulary.json", "data/text.json"):
        shutil.copy2(source / name, target / name)
    if (source / "members").is_dir():
        shutil.copytree(source / "members", target / "members")


def mixture_weights(loaded: Loaded) -> list[tuple[str, float]]:
    """The name and weight of every member of a mixture."""
    assert isinstance(loaded.model, Mixture)
    return list(zip(loaded.about["names"], loaded.model.weights.tolist(), strict=True))
