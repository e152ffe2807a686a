"""What a task's network starts from: the layers of a language model of ours, or word vectors; kept inside the run.

Source: [Dai2015]: a recurrent network that was trained to predict the next word starts one that classifies.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError
from ostinato.core.progress import Watch
from ostinato.core.vocabulary import Vocabulary
from ostinato.nn.lm import NeuralLM
from ostinato.nn.networks import RecurrentNetwork
from ostinato.nn.unroll import Stack
from ostinato.runs import load_arrays, save_arrays
from ostinato.tasks.language.load import Loaded, load
from ostinato.tasks.stacks import structure
from ostinato.tasks.words import begin_with, open_vectors
from ostinato.train.checkpoint import as_array

if TYPE_CHECKING:
    from ostinato.embed.vectors import Vectors

FILE = "start.safetensors"
"""In the run's data folder: arrays under the names of the network's parameters that begin with them."""

SPREAD = 0.1 / 3**0.5
"""The standard deviation of new word vectors, which are uniform in +-0.1."""

Arrays = Mapping[str, NDArray[Any]]


def open_language_model(path: str) -> Loaded:
    """A recurrent language model of ours. Raises MismatchError for another model, FormatError if it is damaged."""
    loaded = load(path)
    if not (isinstance(loaded.model, NeuralLM) and isinstance(loaded.model.network, RecurrentNetwork)):
        raise MismatchError(
            f"{path}: a model of kind {loaded.kind} has no recurrent layers to start from; name the run of a recurrent "
            "language model"
        )
    return loaded


def layers_of(loaded: Loaded) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of a language model's word vectors and layers by name, and what a stack must share with it.

    The word vectors have the spread of new ones; see `respread`.
    """
    assert isinstance(loaded.model, NeuralLM)
    network = copy.deepcopy(loaded.model.network)
    assert isinstance(network, RecurrentNetwork)
    respread(network.embedding.weight, network.stack, SPREAD)
    arrays = {
        name: as_array(tensor)
        for name, tensor in network.state_dict().items()
        if name.startswith(("embedding.", "stack."))
    }
    return arrays, structure(network.kind, network.options)


def respread(words: Tensor, stack: Stack, spread: float) -> None:
    """Scale word vectors [V, D] to a standard deviation, and what reads them the other way: the stack says the same.

    A trained language model has long word vectors, which the steps of an optimiser such as Adam, as long for every
    network, would leave nearly as they are: a rare word could not learn its label. Where a residual connection adds
    word vectors to outputs there is no other way, and nothing is done.
    """
    width, cells = words.shape[1], stack.cells
    if stack.options.residual and cells[0].output_size == width:
        return
    with torch.no_grad():
        factor = spread / float(words.std())
        words.mul_(factor)
        for layer, cell in enumerate(cells):
            if layer == 0 or stack.options.skip:  # those that read them, behind what the layer below hands on
                cell.get_parameter("from_input.weight")[:, -width:].div_(factor)


def keep(folder: Path, arrays: Arrays, source: str, taken: Mapping[str, Any]) -> None:
    """Write what the network starts from into the run's data folder; taken: options, for `StackOptions.resolve`."""
    save_arrays(folder / FILE, arrays, {"source": source, "taken": dict(taken)})


def kept(folder: Path) -> tuple[dict[str, NDArray[Any]], str, dict[str, Any]]:
    """What `keep` wrote: arrays, source and options; empty if the network starts from nothing. Raises FormatError."""
    if not (folder / FILE).is_file():
        return {}, "", {}
    arrays, about = load_arrays(folder / FILE)
    try:
        return arrays, str(about["source"]), dict(about["taken"])
    except (KeyError, TypeError, ValueError) as fault:
        raise FormatError(f"{folder / FILE}: the header lacks {fault}; restore the file or train again") from None


def copy_into(network: nn.Module, arrays: Arrays, source: str) -> None:
    """Let parameters begin with the arrays of their names.

    Raises ConfigError, naming it, for an array that the network has no place for.
    """
    own = network.state_dict()
    for name, array in arrays.items():
        if name not in own or own[name].shape != array.shape:
            place = f"{tuple(own[name].shape)}" if name in own else "nothing"
            raise ConfigError(
                f"{source}: its {name} is {array.shape}, where the network has {place}; a bidirectional network can "
                "start from one layer only, and the options of the layers must be those of the language model"
            )
        own[name].copy_(torch.from_numpy(np.array(array)))


def keep_words(
    folder: Path,
    tables: Mapping[str, tuple[str, Vectors, Vocabulary]],
    seed: int,
    taken: Mapping[str, Any] | None = None,
) -> list[str]:
    """Keep the rows that word vectors give the tables of a network; how much each knows of its words.

    tables: by the name of the parameter, the vectors with where they come from, and the vocabulary whose ids it has.
    taken: as in `keep`. Raises DataError for vectors that know no word.
    """
    begun = {name: begin_with(vectors, words, path, seed) for name, (path, vectors, words) in tables.items()}
    for beginning in begun.values():
        if not beginning.found:
            raise DataError(f"{beginning}; give vectors of this language, and cut and normalise the text as theirs was")
    if begun:
        arrays = {name: beginning.rows for name, beginning in begun.items()}
        keep(folder, arrays, " and ".join(beginning.source for beginning in begun.values()), taken or {})
    return [str(beginning) for beginning in begun.values()]


def keep_words_of_size(
    folder: Path, sides: Mapping[str, tuple[str | None, Vocabulary]], embedding: int, seed: int, watch: Watch
) -> list[str]:
    """`keep_words` for tables of one size, those with a path. Raises ConfigError for vectors of another size."""
    tables = {}
    for name, (path, vocabulary) in sides.items():
        if path is None:
            continue
        vectors = open_vectors(path, watch)
        if vectors.dimensions != embedding:
            raise ConfigError(
                f"{path}: vectors of {vectors.dimensions} numbers, and model.embedding is {embedding}; set it to "
                f"{vectors.dimensions}"
            )
        tables[name] = path, vectors, vocabulary
    return keep_words(folder, tables, seed)


def begin_words(network: nn.Module, folder: Path, frozen: bool) -> None:
    """Let a network begin with what was kept of word vectors, if anything; frozen: training leaves it as it is."""
    arrays, source, _ = kept(folder)
    copy_into(network, arrays, source)
    if frozen:
        hold(network, arrays)


def hold(network: nn.Module, names: Collection[str]) -> None:
    """Let training leave parameters as they are, and let the doctor know that this is meant."""
    for name in names:
        network.get_parameter(name).requires_grad_(False)
    network.held_parameters = tuple(names)  # type: ignore[assignment]
