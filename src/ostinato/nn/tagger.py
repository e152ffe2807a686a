"""A recurrent tagger: the words of a sentence in, log-probs of labels for each of them out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ostinato.core.errors import ConfigError
from ostinato.nn.crf import CRF, Allowed, Path
from ostinato.nn.networks import make_cell
from ostinato.nn.options import RecurrentOptions
from ostinato.nn.pooling import inside
from ostinato.nn.regularise import drop_words
from ostinato.nn.spelling import Speller, Spellings, embedding
from ostinato.nn.unroll import Stack, StackState

ONLINE = (
    "a bidirectional network reads from the end too, so it has no label before the whole sentence is there; answer "
    "without --online, or train with model.bidirectional false"
)
ONLINE_CRF = (
    "a CRF chooses the labels of a whole sentence together, so it has none before the last word is there; answer "
    "without --online, or train with model.output softmax"
)

OUTPUTS = ("softmax", "crf")
"""How labels are chosen: each by itself, or all of a sentence together."""


class TaggerState(NamedTuple):
    stack: StackState
    before: Tensor  # [B], the word read last
    label: Tensor  # [B], the label chosen last, -1 for none


class Tagger(nn.Module):
    """Word vectors beside those of a `Speller`, a stack of cells, and a linear layer: emissions [B, T, labels].

    kind: the registered name of the cell. words: ids that can be read, the last two of them the start symbol and
    padding. pairs: known pairs of a word and the one before it, which have vectors of `pair_size` too; which they are
    is in `pair_keys`, for the task to set. output: one of OUTPUTS. allowed: which labels may follow which; answers
    have no others.
    """

    pair_keys: Tensor  # [pairs] before * words + word, ascending
    hidden_words: Tensor  # [words], the share of each that training reads as unknown, each time others

    def __init__(
        self,
        kind: str,
        words: int,
        labels: int,
        options: RecurrentOptions,
        speller: Speller,
        pairs: int = 0,
        pair_size: int = 0,
        unknown: int = 0,
        output: str = "softmax",
        allowed: Allowed | None = None,
    ):
        super().__init__()
        self.kind, self.words, self.labels, self.options = kind, words, labels, options
        self.is_crf = output == "crf"
        self.unknown, self.start = unknown, words - 2
        width = options.embedding or options.hidden
        self.embedding = embedding(words, width)
        self.speller = speller
        self.pairs = embedding(pairs + 1, pair_size) if pairs else None  # the first is of pairs that are not known
        self.register_buffer("pair_keys", torch.zeros(pairs, dtype=torch.int64), persistent=False)
        self.register_buffer("hidden_words", torch.zeros(words), persistent=False)
        size = width + speller.output_size + (pair_size if pairs else 0)
        self.stack = Stack(partial(make_cell, kind, options), size, options)
        self.output = nn.Linear(self.stack.output_size, labels)
        self.chain = CRF(labels, allowed) if self.is_crf else independent(CRF(labels, allowed))
        self.auxiliary = nn.ModuleList()  # linear layers to other labels, only to learn by

    def forward(self, words: Tensor, lengths: Tensor, places: Tensor, spellings: Spellings) -> Tensor:
        """Emissions [B, T, labels] of sentences: unnormalised log-probs. Padding takes no part.

        words: [B, T] ids. lengths: [B], at least 1. places: [B, T], where in `spellings` each word is.
        """
        return self.judge(self.outputs(words, lengths, places, spellings))

    def outputs(self, words: Tensor, lengths: Tensor, places: Tensor, spellings: Spellings) -> Tensor:
        """The outputs [B, T, output_size] of the stack for what `forward` reads."""
        return self.read(words, lengths, self.speller(spellings)[places])

    def emissions(self, words: Tensor, lengths: Tensor, spelled: Tensor) -> Tensor:
        """As `forward`, of words whose vectors [B, T, S] the speller has made."""
        return self.judge(self.read(words, lengths, spelled))

    def read(self, words: Tensor, lengths: Tensor, spelled: Tensor) -> Tensor:
        """The outputs [B, T, output_size] of the stack, which `judge` judges."""
        before = torch.cat([torch.full_like(words[:, :1], self.start), words[:, :-1]], dim=1)
        return self.stack.read(self.embed(before, words, spelled), lengths)

    def judge(self, outputs: Tensor) -> Tensor:
        """Emissions [..., labels] of outputs of the stack."""
        with torch.autocast(outputs.device.type, enabled=False):  # small, and sums are worth their digits
            found: Tensor = self.output(outputs.to(self.output.weight.dtype))
        return found

    def embed(self, before: Tensor, words: Tensor, spelled: Tensor) -> Tensor:
        """What the stack reads of words [B, T] after the words `before` them, with the noise of training."""
        if self.training:
            hidden = torch.rand(words.shape, device=words.device) < self.hidden_words[words]
            vectors = self.embedding(words.masked_fill(hidden, self.unknown))
            share = self.options.embedding_dropout
            vectors = drop_words(vectors, words, self.words, share) if share else vectors
        else:
            vectors = self.embedding(words)
        parts = [vectors, spelled]
        if self.pairs is not None:
            parts.append(self.pairs(self.pair_ids(before, words)))
        return torch.cat(parts, dim=-1)

    def pair_ids(self, before: Tensor, words: Tensor) -> Tensor:
        """Ids of pairs of words, 0 for those that are not known; of the shape of both."""
        keys = before * self.words + words
        places = torch.searchsorted(self.pair_keys, keys).clamp_(max=len(self.pair_keys) - 1)
        return torch.where(self.pair_keys[places] == keys, places + 1, 0)

    def auxiliary_loss(self, outputs: Tensor, labels: Sequence[Tensor]) -> Tensor:
        """The summed -log p (nats) of the labels [B, T] of every auxiliary layer, given outputs of the stack.

        A label -1 takes no part. Source: [Plank2016]: the sum of the losses of several outputs of one network.
        """
        total = outputs.new_zeros((), dtype=self.output.weight.dtype)
        with torch.autocast(outputs.device.type, enabled=False):
            for layer, known in zip(self.auxiliary, labels, strict=True):
                judged = layer(outputs[known >= 0].to(total.dtype))
                total = total + nn.functional.cross_entropy(judged, known[known >= 0], reduction="sum")
        return total

    def loss(self, emissions: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """The summed -log p (nats) of labels [B, T] given emissions [B, T, K].

        A label -1 is not known: it takes no part, nor does a sentence that has one, if labels are chosen together.
        """
        within = inside(lengths, labels.shape[1])
        known = (labels >= 0) & within
        with torch.autocast(emissions.device.type, enabled=False):
            if not self.is_crf:
                return nn.functional.cross_entropy(emissions[known], labels[known], reduction="sum")
            whole = (known == within).all(1)
            if not bool(whole.any()):
                return emissions.new_zeros(())
            nats: Tensor = self.chain.loss(emissions[whole], labels[whole], lengths[whole])
            return nats.sum()

    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The best labels [B, T] that are allowed, and the log-prob [B] of all of a sentence together (nats).

        A network that reads from the beginning alone, and has no CRF, chooses each label when it has read its word,
        as `step` does; others the best of the whole sentence.
        """
        if self.is_crf or (self.options.bidirectional and self.constrained):
            labels, scores = self.chain.decode(self.normal(emissions), lengths)
            return labels, scores - self.partition(emissions, lengths)
        log_probs = self.normal(emissions)
        chosen = self._one_by_one(log_probs) if self.constrained else log_probs.argmax(-1)
        picked = log_probs.gather(2, chosen[:, :, None])[:, :, 0]
        total = picked.where(inside(lengths, chosen.shape[1]), 0).double().sum(1)
        return chosen.cpu().numpy(), total.cpu().numpy()

    @property
    def constrained(self) -> bool:
        """Whether some labels may not stand somewhere."""
        chain = self.chain
        parts = chain.forbidden_start, chain.forbidden_between, chain.forbidden_end
        return any(bool(part.any()) for part in parts)

    def _one_by_one(self, log_probs: Tensor) -> Tensor:
        """The best label [B, T] that may follow the one before, from the beginning on."""
        label = torch.full((len(log_probs),), -1, device=log_probs.device)
        found = []
        for row in log_probs.unbind(1):
            label = self.choose(label, row)
            found.append(label)
        return torch.stack(found, dim=1)

    @torch.no_grad()
    def best(self, emissions: Tensor, lengths: Tensor, count: int) -> list[list[Path]]:
        """The `count` best labellings of each sentence that are allowed, best first, with their log-probs (nats)."""
        found = self.chain.n_best(self.normal(emissions), lengths, count)
        totals = self.partition(emissions, lengths).tolist()
        return [
            [Path(path.tags, path.score - total) for path in paths] for paths, total in zip(found, totals, strict=True)
        ]

    def normal(self, emissions: Tensor) -> Tensor:
        """Emissions whose sums are scores of labellings: without a CRF, log-probs."""
        return emissions if self.is_crf else torch.log_softmax(emissions, dim=-1)

    def partition(self, emissions: Tensor, lengths: Tensor) -> NDArray[np.float64]:
        """What must be taken off such a score [B] to have a log-prob."""
        if not self.is_crf:
            return np.zeros(len(lengths))
        return self.chain.log_partition(emissions, lengths).double().cpu().numpy()

    def choose(self, before: Tensor, log_probs: Tensor) -> Tensor:
        """The best labels [B] that may follow the labels `before` [B], -1 for none; log_probs: [B, K]."""
        chain = self.chain
        first = (before < 0)[:, None]
        forbidden = torch.where(first, chain.forbidden_start, chain.forbidden_between[before.clamp_min(0)])
        return log_probs.masked_fill(forbidden, -torch.inf).argmax(-1)

    def probabilities(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """The probability [B, T, K] of each label of each word, whatever the others are."""
        return self.chain.marginals(emissions, lengths) if self.is_crf else emissions.softmax(-1)

    def init_state(self, batch: int) -> TaggerState:
        """The state of `batch` rows that have read nothing.

        Raises ConfigError if labels depend on what comes later: of a bidirectional network, and of a CRF.
        """
        if self.options.bidirectional or self.is_crf:
            raise ConfigError(ONLINE if self.options.bidirectional else ONLINE_CRF)
        start = torch.full((batch,), self.start, device=self.embedding.weight.device)
        return TaggerState(self.stack.init_state(batch), start, torch.full_like(start, -1))

    def step(self, state: TaggerState, words: Tensor, spelled: Tensor) -> tuple[Tensor, TaggerState]:
        """Read words [B] with their vectors [B, S]; return the log-probs [B, K] (nats) of their labels.

        The label that is chosen is in the new state.
        """
        xs = self.embed(state.before[:, None], words[:, None], spelled[:, None])
        outputs, stack = self.stack.scan(state.stack, xs)
        log_probs = torch.log_softmax(self.judge(outputs[:, 0]), dim=-1)
        return log_probs, TaggerState(stack, words, self.choose(state.label, log_probs))


def independent(chain: CRF) -> CRF:
    """The chain with zeros that do not train for scores of neighbours, so that labels are by themselves."""
    for name in [name for name, _ in chain.named_parameters()]:
        zeros = torch.zeros_like(getattr(chain, name).detach())
        delattr(chain, name)
        chain.register_buffer(name, zeros, persistent=False)
    return chain
