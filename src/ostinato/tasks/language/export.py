"""A trained network made into a file that steps without torch, or into one for programs that read ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato import __version__
from ostinato.core.errors import ConfigError, DivergedError, FormatError, StorageError
from ostinato.core.model import LanguageModel
from ostinato.core.progress import Watch, unwatched
from ostinato.core.score import Score
from ostinato.stream.matrix import Precision
from ostinato.stream.model import StreamModel
from ostinato.stream.store import save_model
from ostinato.tasks.language.evaluate import encode_texts, evaluate_stream, own_stream
from ostinato.tasks.language.load import ONNX_ENDING, Loaded, load


@dataclass(frozen=True)
class Exported:
    """What was written, and how the original and the export score on the same text, if that was measured.

    checked: how far the log-probs of onnxruntime are from ours at most, in nats, if it read the file.
    """

    path: Path
    model: StreamModel
    original_bytes: int
    original: Score | None
    export: Score | None
    checked: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain values: `file`, `bytes`, `precision`, `original_bytes`, and `original`, `export` with scores."""
        return {
            "file": str(self.path),
            "bytes": self.path.stat().st_size,
            "precision": self.model.precision,
            "parameters": self.model.parameters,
            "original_bytes": self.original_bytes,
            "original": None if self.original is None else self.original.to_json(),
            "export": None if self.export is None else self.export.to_json(),
            "onnxruntime_difference": self.checked,
        }


def export(
    run: str | Path,
    out: Path,
    precision: Precision = "fp32",
    texts: Sequence[str] = (),
    measured: bool = True,
    watch: Watch = unwatched,
) -> Exported:
    """Write the model of a run as a stream file, or as ONNX if `out` ends so; a file that is there is refused.

    texts: what both are scored on; none for the run's validation text. measured: whether to.
    Raises ConfigError for what cannot be exported, with the reason, StorageError, DataError.
    """
    if out.exists():
        raise StorageError(f"{out} already exists; choose another name, or remove it first")
    if is_onnx(out) and precision != "fp32":
        raise ConfigError(f"an ONNX file holds float32 weights; leave out --precision {precision}")
    loaded = load(run)
    plain = stream_model(loaded)
    model = plain if precision == "fp32" else plain.encoded(precision)
    original = scored = None
    if measured:
        stream = encode_texts(loaded, texts, watch) if texts else own_stream(loaded, "valid")
        original, scored = (
            evaluate_stream(one, stream, loaded.pipeline, loaded.regime, watch) for one in (loaded.model, model)
        )
    about, checked = label(loaded, original, scored), None
    if is_onnx(out):
        from ostinato.stream.onnx_file import save_onnx

        checked = save_onnx(out, model, loaded.pipeline.to_json(), about)
    else:
        save_model(out, model, loaded.pipeline.to_json(), **about)
    return Exported(out, model, loaded.run.model_bytes, original, scored, checked)


def is_onnx(out: Path) -> bool:
    """Whether a file of that name is to be an ONNX file."""
    return out.name.lower().endswith(ONNX_ENDING)


def label(loaded: Loaded, original: Score | None, export: Score | None) -> dict[str, Any]:
    """What the file says beside the model: where it comes from, how it is used, what it lost."""
    about: dict[str, Any] = {
        "ostinato": __version__,
        "run": loaded.name,
        "source": loaded.about.get("digest", ""),
        "regime": loaded.regime,
        "empty_lines": loaded.about.get("empty_lines", "skip"),
    }
    if original is not None and export is not None:
        about["measured"] = {
            "signature": export.signature,
            "count": export.count,
            "original_perplexity": original.perplexity,
            "export_perplexity": export.perplexity,
        }
    return about


def stream_model(loaded: Loaded) -> StreamModel:
    """The float32 model of a run's network. Raises ConfigError, with the reason, for a model that has none."""
    from ostinato.nn.lm import NeuralLM

    model: LanguageModel = loaded.model
    if isinstance(model, StreamModel):
        raise ConfigError(f"{loaded.name} is an export already; name the run that it was made from")
    if not isinstance(model, NeuralLM):
        raise ConfigError(f"{loaded.name}: {REASONS.get(loaded.kind, 'no neural network')}")
    arrays = {name: array_of(name, tensor.numpy()) for name, tensor in model.network.state_dict().items()}
    try:
        return StreamModel(loaded.kind, options_of(model.network), arrays, model.vocabulary)
    except (ConfigError, FormatError) as fault:
        raise ConfigError(f"{loaded.name}: {fault}") from None


REASONS = {
    "ngram": "an n-gram model steps without torch as it is; `ostinato stream` and all else read its file",
    "mixture": "a mixture is several models; export its members one by one and give the files to `ostinato mix`, with "
    "the run directory of one of them for the text",
}
"""Why a model of some kinds is not exported."""


def array_of(name: str, array: NDArray[Any]) -> NDArray[np.float32]:
    """The weights as float32. Raises DivergedError if some are not finite."""
    if not np.isfinite(array).all():
        raise DivergedError(f"the weights {name} are not all finite, so training diverged; train again")
    return np.ascontiguousarray(array, np.float32)


def options_of(network: Any) -> Mapping[str, Any]:
    """The options of a network as plain values, those of its output layer as they were settled."""
    options = asdict(network.options)
    head = getattr(network, "head", None)
    if head is not None:
        options["head"] = asdict(head.options)
    return options
