"""Encoder and decoder in one network: a sequence in, another one out."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError, ShapeError
from ostinato.nn.decoder import Decoder, Decoding, Encoded, word_vectors
from ostinato.nn.encoder_decoder_options import EncoderDecoderOptions
from ostinato.nn.lowest import dtype_of, settled
from ostinato.nn.networks import make_cell
from ostinato.nn.pooling import Last, inside
from ostinato.nn.unroll import Stack


class Encoder(nn.Module):
    """Embedding and a stack of cells in one or both directions; the summary is what was read last."""

    def __init__(self, embedding: nn.Embedding, options: EncoderDecoderOptions):
        super().__init__()
        self.embedding = embedding
        self.stack = Stack(partial(make_cell, options.kind, options.encoder), options.embedding, options.encoder)
        self.size = self.stack.output_size
        backwards = torch.arange(self.size) >= options.hidden
        self.last = Last(self.size, backwards if options.bidirectional else None)

    def forward(self, ids: Tensor, lengths: Tensor) -> Encoded:
        """What a decoder needs of ids [B, S] with lengths [B]. Raises ShapeError for a length outside 1 to S."""
        check_lengths(lengths, ids.shape[1])
        cell = self.stack.cells[0]
        with nullcontext() if self.training else settled(cell):
            values = self.stack.read(self.embedding(ids).to(dtype_of(cell)), lengths)
        return Encoded(values, inside(lengths, ids.shape[1]), self.last(values, lengths))


class Describer(nn.Module):
    """Says a target, word by word, of what its encoder has read, whatever that is.

    encoder: gives `Encoded` of sources [B, S, ...] and lengths [B], how many of the S are there.
    """

    def __init__(self, encoder: nn.Module, decoder: Decoder):
        super().__init__()
        self.outputs = decoder.outputs
        self.bf16 = False  # bfloat16 matrix products in training
        self.encoder, self.decoder = encoder, decoder

    def start(self, sources: Tensor, lengths: Tensor) -> Decoding:
        """Where decoding begins, of sources [B, S, ...] with lengths [B]; the start symbol is read first."""
        with self.products():
            return self.decoder.start(self.encoder(sources, lengths))

    def step(self, decoding: Decoding, tokens: Tensor) -> tuple[Tensor, Decoding, Tensor]:
        """Read ids [B]; return log-probs [B, outputs] of the next (nats), what follows, and the weights [B, places]."""
        with self.products():
            return self.decoder.step(decoding, tokens)

    def loss(
        self,
        sources: Tensor,
        lengths: Tensor,
        inputs: Tensor,
        targets: Tensor,
        weight: Tensor,
        sampling: float = 0.0,
    ) -> Tensor:
        """Teacher forcing: the summed -log p (nats) of targets [B, T] where weight [B, T] is not zero.

        sources: [B, S, ...] with lengths [B]. inputs: [B, T], the start symbol and then the targets one place later.
        sampling: share of the inputs that are replaced by the decoder's own draws, see `Decoder.mix`.
        In training with smoothed labels, and, with an output layer that estimates, its estimate. Quicker where the
        rows with the longest targets come first.
        """
        with self.products():
            decoding = self.decoder.start(self.encoder(sources, lengths))
            if sampling:
                inputs = self.decoder.mix(decoding, inputs, sampling)
            ragged = self.decoder.ragged(decoding, weight)
            features = self.decoder.read_ragged(decoding, inputs, ragged)
        self.decoder.bf16 = self.bf16
        return self.decoder.loss(features, ragged.packed(targets), ragged.packed(weight))

    def score(self, sources: Tensor, lengths: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probs [B, T] (nats) of targets after their sources and inputs, and weights [B, T, places]."""
        with self.products():
            decoding = self.decoder.start(self.encoder(sources, lengths))
            features, weights, _ = self.decoder.read(decoding, inputs)
            log_probs = self.decoder.log_probs(features)
        return log_probs.gather(2, targets[:, :, None])[:, :, 0], weights

    def products(self) -> AbstractContextManager[Any]:
        """Matrix products in bfloat16, where that is asked for and this is training."""
        device = next(self.parameters()).device.type
        return torch.autocast(device, torch.bfloat16) if self.bf16 and self.training else nullcontext()


class EncoderDecoder(Describer):
    """Reads a source and says a target, word by word.

    sources, outputs: how many ids of either side can be predicted; two more can be read (start symbol, padding).
    options: what it was made from, with what depends on the vocabulary decided; made from them again, it is the same.
    counts: [outputs], how often each id stands in the training targets, for output layers that sample.
    Raises ConfigError for options that do not fit the vocabularies or each other.
    """

    def __init__(self, sources: int, outputs: int, options: EncoderDecoderOptions, counts: Tensor | None = None):
        if options.shared and sources != outputs:
            raise ConfigError(
                f"model.shared: one table of word vectors needs one vocabulary, got {sources:,} source and "
                f"{outputs:,} target pieces; leave it out, or make one vocabulary of both sides"
            )
        embedding = word_vectors(sources, options.embedding)
        encoder = Encoder(embedding, options)
        size = encoder.size
        super().__init__(encoder, Decoder(outputs, size, size, options, counts, embedding if options.shared else None))
        self.sources = sources
        self.options = options.settled(self.decoder.options.head)


def check_lengths(lengths: Tensor, steps: int) -> None:
    """Raise ShapeError unless every length [B] lies between 1 and `steps`."""
    if len(lengths) and not (1 <= int(lengths.min()) and int(lengths.max()) <= steps):
        raise ShapeError(
            f"lengths reach from {int(lengths.min())} to {int(lengths.max())}, but rows have 1 to {steps} places; "
            "leave empty sources out"
        )
