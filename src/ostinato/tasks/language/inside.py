"""Inside a recurrent language model while it reads: states, gates, units that follow the text, gradients in time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.state import leaves
from ostinato.core.vocabulary import STOP, Ids
from ostinato.nn.lm import NeuralLM, evaluating
from ostinato.nn.networks import RecurrentNetwork
from ostinato.nn.unroll import Unrolled
from ostinato.tasks.language.load import Loaded
from ostinato.tasks.language.typed import heard, shown

Array = NDArray[np.float32]

QUOTES = {"“": 1, "”": -1, "«": 1, "»": -1, "「": 1, "」": -1, "『": 1, "』": -1}
BRACKETS = {"(": 1, ")": -1, "[": 1, "]": -1, "{": 1, "}": -1, "（": 1, "）": -1, "【": 1, "】": -1, "《": 1, "》": -1}


class Features(NamedTuple):
    """What a text has at each token, once that was read; all [T]."""

    line: Array  # tokens since the line began
    quotes: Array  # 1 inside quotation marks, else 0
    brackets: Array  # 1 inside brackets, else 0
    length: Array  # characters of the word


def recurrent(loaded: Loaded) -> RecurrentNetwork:
    """The recurrent network of a run. Raises MismatchError if it has none."""
    network = loaded.model.network if isinstance(loaded.model, NeuralLM) else None
    if isinstance(network, RecurrentNetwork):
        return network
    raise MismatchError(
        f"{loaded.name}: a model of kind {loaded.kind} shows no hidden units; name the run of a recurrent network, "
        "such as `ostinato train --model.kind lstm` makes"
    )


def look(loaded: Loaded, ids: Ids, layer: int = 0) -> dict[str, Array]:
    """States and gates of a layer as each token was read, by name, [T, units]: `hidden` first, then `cell`, then gates.

    NaN where a token is never read: a line end, if each line is read on its own. States that are no vector of the
    hidden size are left out, and a gate that is the state itself. Raises MismatchError, ConfigError for no such layer.
    """
    network = recurrent(loaded)
    if not 0 <= layer < len(network.stack.layers):
        raise ConfigError(f"{loaded.name}: there is no layer {layer + 1}; it has {len(network.stack.layers)}")
    found: dict[str, Array] = {}
    with evaluating(network):
        for begin, inputs in passages(loaded, ids):
            steps = unrolled(network, inputs)[1][layer]
            for name, rows in parts(steps).items():
                whole = found.setdefault(name, np.full((len(ids), rows.shape[1]), np.nan, np.float32))
                whole[begin : begin + len(rows) - 1] = rows[1:]  # the first step read the start symbol
    return found


def passages(loaded: Loaded, ids: Ids) -> list[tuple[int, Ids]]:
    """What the model reads without forgetting, with its place: the start symbol, then the ids from there on."""
    if loaded.regime != "sentence":
        return [(0, heard(loaded, ids, len(ids)))]
    stops = np.flatnonzero(ids == loaded.vocabulary.stop).tolist()
    ends = stops if stops and stops[-1] == len(ids) - 1 else [*stops, len(ids)]
    begins = [0, *(stop + 1 for stop in ends[:-1])]
    return [(begin, heard(loaded, ids, end)) for begin, end in zip(begins, ends, strict=True)]


def unrolled(network: RecurrentNetwork, inputs: Ids) -> tuple[Tensor, list[Unrolled]]:
    """The features [1, T, D] that the output layer reads, and the steps of every layer."""
    xs = network.embedding(torch.from_numpy(inputs)[None].to(network.embedding.weight.device)).detach()
    outputs, layers = network.stack.look(network.init_state(1), xs)
    return network.project(outputs), layers


def parts(steps: Unrolled) -> dict[str, Array]:
    """What can be shown of some steps, by name, [T, units]."""
    states = {name: values for name, values in rows_of(steps.states).items() if values.ndim == 2}
    gates = {name: values.reshape(len(values), -1) for name, values in rows_of(steps.gates).items()}
    return states | {name: values for name, values in gates.items() if name not in states}


def rows_of(steps: Sequence[Any]) -> dict[str, Array]:
    """The fields of NamedTuples of one row, the steps stacked: [T, ...]."""
    stacked = zip(*steps, strict=True)
    return {
        name: torch.cat(values).float().cpu().numpy() for name, values in zip(steps[0]._fields, stacked, strict=True)
    }


def gradient_norms(loaded: Loaded, ids: Ids, place: int) -> NDArray[np.float64]:
    """How far the loss -log p of token `place` (nats) reaches back: for k = 1, 2, ... the norm of its gradient by the
    state k steps earlier, all layers together, back to the step that read the start symbol.

    A state is what a step hands to the next, so the gradient is what comes back through time. Empty for the first
    token of what is read without forgetting. Raises MismatchError. Source: [Pascanu2013] eq. 3-5.
    """
    network = recurrent(loaded)
    inputs = heard(loaded, ids, place)
    if len(inputs) == 1:
        return np.zeros(0)
    with evaluating(network, gradients=True):
        features, layers = unrolled(network, inputs)
        loss = -network.log_probs(features[0, -1])[int(ids[place])]
        handed = [[leaf for layer in layers for leaf in leaves(layer.states[step])] for step in range(len(inputs) - 1)]
        grads = iter(torch.autograd.grad(loss, [leaf for state in handed for leaf in state]))
    squares = [sum(float(next(grads).double().square().sum()) for _ in state) for state in handed]
    return np.sqrt(squares)[::-1]


def text_features(loaded: Loaded, pieces: Sequence[str]) -> Features:
    """What a text of these pieces, line ends `</s>`, has at each token.

    A straight quotation mark opens or closes by turns. Where each line is read on its own, a line end closes all. The
    word of a character or byte is the run of letters that it stands in, the length of others what they spell.
    """
    fresh, texts = loaded.regime == "sentence", [shown(piece) for piece in pieces]
    line, quotes, brackets = [], [], []
    since = depth = inside = 0
    for piece, text in zip(pieces, texts, strict=True):
        for letter in text:
            inside = 1 - inside if letter == '"' else max(0, inside + QUOTES.get(letter, 0))
            depth = max(0, depth + BRACKETS.get(letter, 0))
        line.append(since)
        quotes.append(min(1, inside))
        brackets.append(min(1, depth))
        since = 0 if piece == STOP else since + 1
        if piece == STOP and fresh:
            inside = depth = 0
    lengths = (
        runs_of_letters(texts) if loaded.pipeline.unit in ("char", "byte") else [len(text.strip()) for text in texts]
    )
    return Features(*(np.array(values, np.float32) for values in (line, quotes, brackets, lengths)))


def runs_of_letters(letters: Sequence[str]) -> list[int]:
    """The length of the run of letters or digits that each stands in, 0 for others."""
    found: list[int] = []
    for is_letter, run in itertools.groupby(letters, str.isalnum):
        size = len(list(run))
        found += [size if is_letter else 0] * size
    return found


def correlations(values: Array, features: Features) -> Array:
    """How each unit of `values` [T, units] goes with each feature: Pearson's r, [features, units].

    NaN where one of the two never changes. Rows of NaN take no part. Source: [Karpathy2016] for the idea.
    """
    read = ~np.isnan(values).any(axis=1)
    units, wanted = values[read].astype(np.float64), np.array(features, np.float64)[:, read]
    if not len(units):
        return np.full((len(wanted), values.shape[1]), np.nan, np.float32)
    units, wanted = units - units.mean(axis=0), wanted - wanted.mean(axis=1, keepdims=True)
    sizes = np.outer(np.linalg.norm(wanted, axis=1), np.linalg.norm(units, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sizes > 1e-9, wanted @ units / sizes, np.nan).astype(np.float32)
