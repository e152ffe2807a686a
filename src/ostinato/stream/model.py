"""A trained network that steps without torch, as a language model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import FormatError
from ostinato.core.model import check_ids
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.stream.heads import Head, make_head
from ostinato.stream.matrix import SCALE, Precision, Weights, encoded
from ostinato.stream.networks import Network, make_network

if TYPE_CHECKING:
    from ostinato.stream.packed import PackedStepper

LOGITS = 1 << 19  # numbers of log-probs alive at once while scoring (2 MiB): few enough to stay in the cache


class StreamModel:
    """A `LanguageModel` of NumPy arrays alone; states have the structure that the network's had in training.

    kind, options: as in training, plain values. fingerprint: says which weights these are; a saved session names it.
    compiled: step a plain stack of cells under a softmax by one compiled call (stream/packed.py), which reads int8
    weights with what they multiply narrowed to 8 bits too; False steps part by part, in float32 whatever the weights.
    """

    def __init__(
        self,
        kind: str,
        options: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        vocabulary: Vocabulary,
        precision: Precision = "fp32",
        fingerprint: str = "",
        compiled: bool = True,
    ):
        self.kind, self.options, self.arrays, self.vocabulary = kind, options, arrays, vocabulary
        self.precision, self.fingerprint, self.outputs = precision, fingerprint, vocabulary.outputs
        self.compiled = compiled
        weights = Weights(arrays)
        self.network: Network = make_network(kind, weights, self.outputs, options)
        self.head: Head = make_head(
            weights.under("head"),
            self.network.features_size,
            self.outputs,
            self.network.embedding,
            options.get("head") or {},
        )
        if weights.left_over():
            raise FormatError(f"no part of a {kind} reads the array {weights.left_over()[0]}; upgrade Ostinato")
        self.matrices = frozenset(weights.matrices)
        """The names of the arrays that are kept in the model's precision; all others are float32."""

    @property
    def parameters(self) -> int:
        """How many numbers were learnt."""
        return sum(array.size for name, array in self.arrays.items() if not name.endswith(SCALE))

    @property
    def weight_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def __repr__(self) -> str:
        return f"StreamModel({self.kind}, {self.precision}, {self.parameters:,} parameters)"

    def init_state(self, batch: int) -> State:
        """The state of `batch` rows that have read nothing."""
        return self.network.init_state(batch)

    @cached_property
    def packed(self) -> PackedStepper | None:
        """The whole step as one compiled call, made when it is first needed; None for what that does not know."""
        from ostinato.stream.packed import PackedStepper
        from ostinato.stream.packing import reason

        if not self.compiled or reason(self.network, self.head) is not None:
            return None
        return PackedStepper(self.network, self.head, self.vocabulary, self.precision)

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, State]:
        """Read tokens [B]; return log-probs [B, outputs] of the next in nats and the new state."""
        self.vocabulary.check(tokens, "tokens")
        if self.packed is not None:
            return self.packed.step(state, np.ascontiguousarray(tokens))
        features, after = self.network.step(state, tokens)
        log_probs: LogProbs = self.head.log_probs(features)
        return log_probs, after

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, State]:
        """Log-prob [B, T] in nats of each target after the inputs up to its own place, and the last state.

        inputs, targets: [B, T]. Raises ShapeError, MismatchError. Equals a fold of `step`.
        """
        check_ids(self.vocabulary, inputs, targets)
        if inputs.size == 0:
            return np.zeros(inputs.shape, np.float32), state
        if self.packed is not None:
            return self.packed.score(state, inputs, targets)
        features, after = self.network.scan(state, inputs)
        flat, goals = features.reshape(-1, features.shape[-1]), targets.reshape(-1, 1)
        rows = max(1, LOGITS // self.outputs)
        parts = [
            np.take_along_axis(self.head.log_probs(flat[begin : begin + rows]), goals[begin : begin + rows], axis=1)
            for begin in range(0, len(flat), rows)
        ]
        return np.concatenate(parts).reshape(inputs.shape), after

    def encoded(self, precision: Precision) -> StreamModel:
        """The same model with its matrices in another precision. This one must have them in float32."""
        assert self.precision == "fp32"
        arrays: dict[str, NDArray[Any]] = {}
        for name, array in self.arrays.items():
            arrays |= encoded(name, array, precision) if name in self.matrices else {name: array}
        return StreamModel(self.kind, self.options, arrays, self.vocabulary, precision, self.fingerprint, self.compiled)
