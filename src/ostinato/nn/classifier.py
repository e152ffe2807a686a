"""A recurrent classifier: a sequence of ids in, log-probs of labels out."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError
from ostinato.nn.networks import make_cell
from ostinato.nn.options import RecurrentOptions
from ostinato.nn.pooling import Attention, Pooling, poolings
from ostinato.nn.regularise import drop_words
from ostinato.nn.unroll import Stack, StackState

ONLINE = (
    "a bidirectional network reads from the end too, so it has no answer before the whole text is there; answer "
    "without --online, or train with model.bidirectional false"
)


class Grams(NamedTuple):
    """The character n-grams of the distinct words of a batch; a word may have none."""

    places: Tensor  # of the shape of the ids: which distinct word each is
    buckets: Tensor  # [N], the n-grams of all distinct words, one word after another
    begins: Tensor  # [W], where in `buckets` each word begins


class ClassifierState(NamedTuple):
    stack: StackState
    pooled: tuple[Any, ...]  # a state of each pooling


class Classifier(nn.Module):
    """Embedding, a stack of cells, pooling over time, and a linear layer: log p(label | sequence).

    kind: the registered name of the cell. words: ids that can be read, the last of them padding. unknown: the id of
    unknown words. pooling: names of `poolings`, whose vectors stand side by side. hidden_words: share of the words
    that training reads as unknown [Iyyer2015], each time others. buckets: of character n-grams; with them the vector of
    a word is its own and the mean of those of its n-grams, so that unknown words have one too [Bojanowski2017].
    """

    def __init__(
        self,
        kind: str,
        words: int,
        labels: int,
        options: RecurrentOptions,
        pooling: tuple[str, ...] = ("max",),
        hidden_words: float = 0.0,
        unknown: int = 0,
        buckets: int = 0,
    ):
        super().__init__()
        self.kind, self.words, self.labels, self.options = kind, words, labels, options
        self.hidden_words, self.unknown = hidden_words, unknown
        width = options.embedding or options.hidden
        self.embedding = nn.Embedding(words, width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.grams = nn.EmbeddingBag(buckets, width, mode="mean") if buckets else None
        if self.grams is not None:
            nn.init.uniform_(self.grams.weight, -0.1, 0.1)
        self.stack = Stack(partial(make_cell, kind, options), width, options)
        size = self.stack.output_size
        self.pooling = nn.ModuleDict({name: poolings[name](size, backwards(self.stack)) for name in pooling})
        self.output = nn.Linear(size * len(self.pooling), labels)

    def forward(self, ids: Tensor, lengths: Tensor, grams: Grams | None = None) -> Tensor:
        """Log-probs [B, labels] (nats) of sequences ids [B, T]; lengths: [B], at least 1. Padding takes no part.

        grams: of the words, for a network that reads them.
        """
        return self.judge(self.read(ids, lengths, grams), lengths)

    def read(self, ids: Tensor, lengths: Tensor, grams: Grams | None = None) -> Tensor:
        """The outputs [B, T, D] of the stack."""
        return self.stack.read(self.embed(ids, grams), lengths).to(self.embedding.weight.dtype)

    def judge(self, outputs: Tensor, lengths: Tensor) -> Tensor:
        """Log-probs [B, labels] (nats) of what `read` gave."""
        with torch.autocast(outputs.device.type, enabled=False):  # small, and sums are worth their digits
            pooled = torch.cat([pool(outputs, lengths) for pool in self.pooling.values()], dim=-1)
            return self.log_probs(pooled)

    def log_probs(self, pooled: Tensor) -> Tensor:
        """Log-probs [B, labels] (nats) of pooled outputs."""
        return torch.log_softmax(self.output(pooled), dim=-1)

    def weights(self, outputs: Tensor, lengths: Tensor) -> Tensor:
        """How much attention looks at each place [B, T]. Raises ConfigError without attention pooling."""
        if "attention" not in self.pooling:
            raise ConfigError(
                f"this network pools by {', '.join(self.pooling)}, which has no weights to show; train with "
                "model.pooling attention"
            )
        return cast(Attention, self.pooling["attention"]).weights(outputs, lengths)

    def embed(self, ids: Tensor, grams: Grams | None = None) -> Tensor:
        """Word vectors [..., D] of ids, with the noise of training."""
        read = ids
        if self.training and self.hidden_words:
            hidden = torch.rand(ids.shape, device=ids.device) < self.hidden_words
            read = ids.masked_fill(hidden, self.unknown)
        xs = cast(Tensor, self.embedding(read))
        share = self.options.embedding_dropout if self.training else 0.0
        if self.grams is None:
            return drop_words(xs, read, self.words, share) if share else xs
        assert grams is not None
        xs = xs + self.grams(grams.buckets, grams.begins)[grams.places]
        return drop_words(xs, grams.places, len(grams.begins), share) if share else xs

    def init_state(self, batch: int) -> ClassifierState:
        """The state of `batch` rows that have read nothing. Raises ConfigError if the network is bidirectional."""
        if self.options.bidirectional:
            raise ConfigError(ONLINE)
        like = self.embedding.weight.new_zeros(batch, self.stack.output_size)
        return ClassifierState(self.stack.init_state(batch), tuple(pool.init_state(like) for pool in self._pools))

    def step(self, state: ClassifierState, ids: Tensor, grams: Grams | None = None) -> tuple[Tensor, ClassifierState]:
        """Read ids [B]; return the log-probs [B, labels] that `forward` gives for all read so far, and the state."""
        outputs, stack = self.stack.scan(state.stack, self.embed(ids, grams)[:, None])
        found = [pool.step(before, outputs[:, 0]) for pool, before in zip(self._pools, state.pooled, strict=True)]
        log_probs = self.log_probs(torch.cat([vector for vector, _ in found], dim=-1))
        return log_probs, ClassifierState(stack, tuple(after for _, after in found))

    @property
    def _pools(self) -> list[Pooling]:
        return [pool for pool in self.pooling.values() if isinstance(pool, Pooling)]


def backwards(stack: Stack) -> Tensor:
    """Which numbers [output_size] of a stack's outputs are of cells that read from the end."""
    if not stack.options.bidirectional:
        return torch.zeros(stack.output_size, dtype=torch.bool)
    sizes = [cell.output_size for cell in stack.cells]
    kept = sizes if stack.options.skip else sizes[-1:]
    return torch.cat([torch.arange(2 * size) >= size for size in kept])
