"""A run as a language model with its text pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ostinato.core.config import build, read_toml
from ostinato.core.errors import FormatError, MismatchError
from ostinato.core.model import LanguageModel
from ostinato.core.vocabulary import Vocabulary
from ostinato.runs import Arrays, RunDir
from ostinato.tasks.options import KINDS, Config
from ostinato.text.pipeline import Pipeline

if TYPE_CHECKING:
    from ostinato.text.scan import Encoder

ONNX_ENDING = ".onnx"

OLD_NAMES = {"output": "head.weight", "output_bias": "head.bias"}
"""Arrays of models saved before output layers were parts of their own."""


@dataclass(frozen=True)
class Loaded:
    """A trained language model and what belongs to it."""

    run: RunDir
    kind: str
    model: LanguageModel
    pipeline: Pipeline
    regime: str
    about: Mapping[str, Any]  # the header of the model file
    words: Mapping[str, Any] = field(default_factory=dict)  # the arrays of a ready-made encoder, if the file has one

    @property
    def parameters(self) -> int:
        """How many numbers the model consists of."""
        return int(self.about["parameters"] if "parameters" in self.about else cast(Any, self.model).parameters)

    def encoder(self) -> Encoder:
        """What gives lines of text their ids, for a pipeline that only cuts at white space."""
        from ostinato.text.scan import Encoder

        return Encoder.from_arrays(self.words) if self.words else Encoder(self.vocabulary)

    @property
    def name(self) -> str:
        """The run directory, as it was named."""
        return str(self.run.path)

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's vocabulary."""
        return self.model.vocabulary


def load(path: str | Path) -> Loaded:
    """The best model of a run, or the model in a file: an export, or an n-gram model, ours, ARPA, or KenLM's.

    Raises FormatError if it is incomplete, damaged or newer, MismatchError if its vocabulary is not the one the
    model was made for.
    """
    if Path(path).is_file():
        return load_file(Path(path))
    if not Path(path).exists():
        raise FormatError(f"{path}: no such run or file; `ostinato train --run-dir {path}` makes a run")
    run = RunDir.open(path)
    vocabulary = Vocabulary.load(run.path / "data" / "vocabulary.json")
    pipeline = Pipeline.load(run.path / "data" / "text.json")
    if run.model_kind().startswith("ngram"):
        return load_ngram(run, vocabulary, pipeline)
    arrays, about = run.load_model()
    check_vocabulary(run, about, vocabulary)
    try:
        kind = str(about["kind"])
        model = make_model(run, kind, arrays, about, vocabulary)
        return Loaded(run, kind, model, pipeline, str(about["regime"]), about)
    except KeyError as fault:
        raise FormatError(f"{run}/model.safetensors: the header lacks {fault}; restore it or train again") from None


def load_file(path: Path) -> Loaded:
    """The model in a file, which is known by how it begins."""
    from ostinato.stream.store import is_stream_file
    from ostinato.stream.store import open_model as open_export

    run = RunDir(path)
    if is_stream_file(path):
        export = open_export(path)
        kind, pipeline = f"{export.model.kind} {export.model.precision}", Pipeline.from_json(export.text)
        return Loaded(run, kind, export.model, pipeline, str(export.about.get("regime", "sentence")), export.about)
    if path.name.lower().endswith(ONNX_ENDING):
        raise FormatError(f"{path}: ONNX is for onnxruntime; `ostinato export` to another ending makes a file for here")
    from ostinato.ngram.files import open_any

    stored = open_any(path, others="a run, an export, or ")
    regime = str(stored.about.get("regime", "sentence"))
    return Loaded(run, "ngram", stored.model, stored.pipeline, regime, stored.about, stored.words)


def check_vocabulary(run: RunDir, about: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """Raise MismatchError unless the model was made for this vocabulary."""
    made_for = about.get("vocabulary")
    if made_for != vocabulary.fingerprint:
        raise MismatchError(
            f"{run}: the model was made for vocabulary {made_for}, but vocabulary.json is {vocabulary.fingerprint}; "
            "restore the file or train again"
        )


def load_ngram(run: RunDir, vocabulary: Vocabulary, pipeline: Pipeline) -> Loaded:
    """The n-gram model of a run, memory-mapped."""
    from ostinato.ngram.store import open_model

    stored = open_model(run.path / "model.safetensors")
    check_vocabulary(run, stored.about, vocabulary)
    regime = str(stored.about.get("regime", "sentence"))
    return Loaded(run, "ngram", stored.model, pipeline, regime, stored.about, stored.words)


def make_model(
    run: RunDir, kind: str, arrays: Arrays, about: Mapping[str, Any], vocabulary: Vocabulary
) -> LanguageModel:
    """The language model of that kind from its arrays. Raises FormatError if they do not fit."""
    if kind == "mixture":
        from ostinato.mix import Mixture

        members = [load(run.path / "members" / str(place)).model for place in range(int(about["members"]))]
        return Mixture(members, arrays["weights"])
    if kind not in KINDS:
        raise FormatError(f"{run}: holds a model of unknown kind {kind!r}; upgrade Ostinato or train again")
    return make_neural(run, kind, arrays, about, vocabulary)


def make_neural(
    run: RunDir, kind: str, arrays: Arrays, about: Mapping[str, Any], vocabulary: Vocabulary
) -> LanguageModel:
    """A neural language model from its arrays. Raises FormatError if they do not fit its options."""
    import torch

    from ostinato.nn.lm import NeuralLM
    from ostinato.nn.networks import networks

    options = build(KINDS[kind], about["options"], f"{run}/model.safetensors")
    network = networks[kind](vocabulary.outputs, options)
    try:
        network.load_state_dict({OLD_NAMES.get(name, name): torch.from_numpy(array) for name, array in arrays.items()})
    except RuntimeError as fault:
        raise FormatError(f"{run}/model.safetensors: the weights do not fit a {kind}: {fault}") from None
    return NeuralLM(network.eval(), vocabulary)  # from the start, so that several threads may ask it


def load_config(run: RunDir) -> Config:
    """The configuration a run was made with. Raises ConfigError if it was edited into nonsense."""
    return build(Config, read_toml(run.path / "config.toml"), str(run.path / "config.toml"))
