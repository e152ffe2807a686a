"""The door of encoder-decoders: NumPy outside, tensors inside."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ostinato.core.errors import ConfigError, DataError, MismatchError, ShapeError
from ostinato.core.state import State, map_leaves
from ostinato.core.vocabulary import Ids, LogProbs
from ostinato.nn.cells import Cell
from ostinato.nn.cells.recurrent import RecurrentCell
from ostinato.nn.decoder import DecoderState, Decoding
from ostinato.nn.encoder_decoder import Describer, EncoderDecoder
from ostinato.nn.heads import LinearHead
from ostinato.nn.lm import evaluating, to_numpy, to_torch
from ostinato.nn.memory import Memory, grouped


class ReadingState(NamedTuple):
    """Where a row stands: arrays alone. What was read stays in the `Reading`, however often rows are taken."""

    row: Ids  # [N], which source
    decoder: DecoderState


class Reading:
    """Sources that were read, as a `Stepper`: all of decoding can work with it.

    A state belongs to the reading that made it; its rows may be taken, repeated and stacked.
    """

    def __init__(self, network: Describer, decoding: Decoding, start: int, bf16: bool):
        self.outputs, self.start = network.outputs, start
        self._network, self._bf16 = network, bf16
        self._decoding = decoding
        self._kept: tuple[bytes, Memory] | None = None

    def __len__(self) -> int:
        """How many sources."""
        return len(self._decoding.summary)

    def init_state(self) -> tuple[State, Ids]:
        """The state of every source before the first word, and the start symbol for each: what decoders begin with."""
        rows = np.arange(len(self))
        return ReadingState(rows, arrays(self._decoding.decoder)), np.full(len(rows), self.start)

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, State]:
        """Read tokens [N]; return the log-probs [N, outputs] of the next (nats) and the new state.

        Raises MismatchError for a token outside the vocabulary, ShapeError for a state of other sources.
        """
        row, decoder = ReadingState(*state)
        check_ids(tokens, self.outputs + 2, "tokens")
        if len(row) and not (0 <= row.min() and row.max() < len(self)):
            raise ShapeError(f"a row of the state is of source {row.max()}, but {len(self)} were read; read them anew")
        if not len(row):
            return np.zeros((0, self.outputs), np.float32), state
        with evaluating(self._network), products(self._network, self._bf16):
            log_probs, after, _ = self._network.decoder.step(self._at(row, decoder), torch.from_numpy(tokens))
            said: LogProbs = log_probs.float().cpu().numpy()
            return said, ReadingState(row, arrays(after.decoder))

    def _at(self, row: Ids, decoder: DecoderState) -> Decoding:
        """The decoding of the rows of a state: each row of the memory that is looked at once, in their order."""
        device = self._decoding.summary.device
        used, places = np.unique(row, return_inverse=True)
        memory = grouped(self._memory(used), torch.from_numpy(places).to(device))
        return Decoding(to_torch(decoder, device), memory, self._decoding.summary[torch.from_numpy(row).to(device)])

    def _memory(self, used: Ids) -> Memory:
        """Rows of the memory, which are copied only when another source is finished."""
        memory = self._decoding.memory
        assert isinstance(memory, Memory)
        if len(used) == len(self):
            return memory
        key = used.tobytes()
        if self._kept is None or self._kept[0] != key:
            rows = torch.from_numpy(used).to(memory.mask.device)
            self._kept = key, Memory(*(part[rows] for part in memory))
        return self._kept[1]


Source = TypeVar("Source")


class Describing(Generic[Source]):
    """A network that reads sources of one kind and says targets; dropout is off. Derive, and give `batch`, `places`.

    start: the id that targets begin with. bf16: matrix products in bfloat16, from a copy of the weights made now.
    """

    def __init__(self, network: Describer, start: int | None = None, bf16: bool = False):
        self.network, self.outputs = narrowed(network) if bf16 else network, network.outputs
        self.start, self.bf16 = network.outputs if start is None else start, bf16

    def batch(self, sources: Sequence[Source]) -> tuple[Tensor, Tensor]:
        """Sources as tensors: [B, S, ...], and their lengths [B]."""
        raise NotImplementedError

    def places(self, source: Source) -> int:
        """How many places of a source attention looks at."""
        raise NotImplementedError

    def read(self, sources: Sequence[Source]) -> Reading:
        """Read sources side by side. Raises DataError, MismatchError for one that cannot be read."""
        given, lengths = self.batch(sources)
        with evaluating(self.network), products(self.network, self.bf16):
            decoding = self.network.decoder.start(self.network.encoder(given, lengths))
        return Reading(self.network, decoding, self.start, self.bf16)

    def score(self, sources: Sequence[Source], targets: Sequence[Ids]) -> list[tuple[LogProbs, NDArray[np.float32]]]:
        """For each target [T], said after its source: log-probs [T] in nats of its ids, and the attention [T, places].

        A target holds the stop symbol if that is to count. Without attention the second has no columns.
        Raises DataError, MismatchError, ShapeError if the two differ in number.
        """
        if len(sources) != len(targets):
            raise ShapeError(f"{len(sources)} sources and {len(targets)} targets; give one target to each")
        given, lengths = self.batch(sources)
        goals = padded(targets, self.outputs, "targets")
        first = np.full((len(goals), 1), self.start)
        inputs = np.hstack([first, goals])[:, : goals.shape[1]]
        device = given.device
        with evaluating(self.network), products(self.network, self.bf16):
            picked, weights = self.network.score(
                given, lengths, torch.from_numpy(inputs).to(device), torch.from_numpy(goals).to(device)
            )
        log_probs, seen = picked.float().cpu().numpy(), weights.float().cpu().numpy()
        return [
            (log_probs[row, : len(target)], seen[row, : len(target), : self.places(source)])
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]


class Translator(Describing[Ids]):
    """An encoder-decoder whose sources are rows of ids [S], of at least one."""

    network: EncoderDecoder

    def places(self, source: Ids) -> int:
        """Every id is one."""
        return len(source)

    def batch(self, sources: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        """Ids [B, S] and lengths [B] of sources.

        Raises DataError for an empty one, MismatchError for ids outside the source vocabulary.
        """
        for row, source in enumerate(sources):
            if not len(source):
                raise DataError(f"source {row} is empty, so there is nothing to read; leave it out")
        ids = padded(sources, self.network.sources + 2, "sources")
        device = next(self.network.parameters()).device
        lengths = np.array([len(source) for source in sources], np.int64)
        return torch.from_numpy(ids).to(device), torch.from_numpy(lengths).to(device)


def padded(rows: Sequence[Ids], known: int, what: str) -> Ids:
    """Rows of ids below `known` as [B, T], zeros behind them. Raises MismatchError for others."""
    ids = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    check_ids(ids, known, what)
    return ids


def check_ids(ids: Ids, known: int, what: str) -> None:
    """Raise MismatchError unless all ids lie below `known`."""
    if ids.size and not (0 <= int(ids.min()) and int(ids.max()) < known):
        raise MismatchError(
            f"{what} reach from {int(ids.min())} to {int(ids.max())}, but only ids 0 to {known - 1} fit; encode the "
            "text with this model's vocabulary"
        )


def narrowed(network: Describer) -> Describer:
    """A copy of the network for answers, with the matrices that every step reads in bfloat16, so that none converts
    them, and what is read of every word found before."""
    if next(network.parameters()).dtype != torch.float32:
        raise ConfigError("bf16 is for a network in float32; leave it out")
    narrow = copy.deepcopy(network)
    wide = {id(module) for cell in narrow.modules() if keeps_wide(cell) for module in cell.modules()}
    for module in narrow.decoder.modules():
        if isinstance(module, nn.Linear | nn.Embedding | LinearHead) and id(module) not in wide:
            module.weight.data = module.weight.data.bfloat16()
    with products(narrow, bf16=True):
        narrow.decoder.tabulate()
    return narrow


def keeps_wide(cell: nn.Module) -> bool:
    """Whether it is a cell that computes as wide as its parameters are."""
    return isinstance(cell, Cell) and not isinstance(cell, RecurrentCell)


def products(network: Describer, bf16: bool) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16, if they are asked for."""
    device = next(network.parameters()).device.type
    return torch.autocast(device, torch.bfloat16) if bf16 else nullcontext()


def arrays(state: DecoderState) -> DecoderState:
    """A state of tensors as one of arrays, which know no bfloat16."""
    made = to_numpy(map_leaves(lambda leaf: leaf.float() if leaf.dtype == torch.bfloat16 else leaf, state))
    return DecoderState(*made)
