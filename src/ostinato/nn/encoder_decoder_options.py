"""Options of encoders and decoders. No torch here: the command line reads this for its help."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import Literal, Self

from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.nn.heads.options import HeadOptions
from ostinato.nn.options import KINDS, RecurrentOptions, Share, Size

CellName = Literal[
    "rnn",
    "lstm",
    "lstm-1997",
    "lstm-peephole",
    "lstm-coupled",
    "lstm-layer-norm",
    "gru",
    "gru-reset-before",
    "min-gru",
    "min-lstm",
    "gated-delta",
]
AttentionName = Literal["none", "additive", "dot", "scaled-dot", "general"]
SIZED = ("additive", "scaled-dot")


@dataclass(frozen=True, config=STRICT)
class DecoderOptions:
    """A recurrent decoder, whatever it describes."""

    kind: CellName = "lstm"
    """The cell."""
    embedding: Size = 256
    """Size of the word vectors."""
    hidden: Size = 256
    """Hidden units of a layer."""
    layers: Size = 1
    attention: AttentionName = "additive"
    """none: one fixed vector for the whole source; additive: Bahdanau's; dot, general: Luong's; scaled-dot."""
    attention_size: Size | None = None
    """additive, scaled-dot (as hidden): size of what a query is compared with."""
    attend: Literal["before", "after"] = "before"
    """Look before the step, and read what was seen [Bahdanau2015], or after it [Luong2015], which is faster."""
    input_feeding: bool = False
    """Of attend after: read what the last word was chosen by [Luong2015]; as slow as before."""
    context: Literal["start", "every-step"] = "start"
    """Of attention none: the source is the start state alone [Sutskever2014], or read at every step too [Cho2014]."""
    dropout: Share = 0.2
    """Share of inputs and outputs dropped in training."""
    residual: bool = False
    """Add a layer's input to its output."""
    layer_norm: bool = False
    """Normalise the outputs of each layer."""
    tied: bool = True
    """The output layer uses the word vectors."""
    label_smoothing: Share = 0.0
    """Share of the target's probability that is spread over all words [Szegedy2016]."""
    head: HeadOptions = field(default_factory=HeadOptions)

    def __post_init__(self) -> None:
        if self.attention == "none":
            if self.attend == "after" or self.input_feeding:
                raise ValueError("attend and input_feeding are for a decoder with attention, which is none")
        elif self.context == "every-step":
            raise ValueError("context is for attention none; a decoder with attention has a context at every step")
        if self.attention_size is not None and self.attention not in SIZED:
            raise ValueError(f"attention_size does not apply to {self.attention}; it is for {', '.join(SIZED)}")
        if self.input_feeding and self.attend == "before":
            raise ValueError("input_feeding is for attend after; before, the decoder reads what it saw anyway")
        if self.label_smoothing and self.head.kind != "softmax":
            raise ValueError(f"label_smoothing needs the full softmax, not {self.head.kind}; leave one of them out")

    @property
    def recurrent(self) -> RecurrentOptions:
        """The options of the stack of cells."""
        return self.stack_of(self.layers, bidirectional=False)

    def stack_of(self, layers: int, *, bidirectional: bool) -> RecurrentOptions:
        """The options of a stack of so many layers of this cell, with its defaults."""
        kind = KINDS[self.kind]
        assert issubclass(kind, RecurrentOptions)
        return kind(
            hidden=self.hidden,
            layers=layers,
            dropout=self.dropout,
            residual=self.residual,
            layer_norm=self.layer_norm,
            bidirectional=bidirectional,
        )

    def settled(self, head: HeadOptions) -> Self:
        """With the output layer as it was decided by the vocabulary."""
        return dataclasses.replace(self, head=head)


@dataclass(frozen=True, config=STRICT)
class EncoderDecoderOptions(DecoderOptions):
    """An encoder and a decoder of the same cells."""

    encoder_layers: Size = 1
    bidirectional: bool = True
    """The encoder reads from both ends, so that every word's vector knows what follows it."""
    shared: bool = False
    """One table of word vectors for both sides, which must have one vocabulary."""

    @property
    def encoder(self) -> RecurrentOptions:
        """The options of the encoder's stack."""
        return self.stack_of(self.encoder_layers, bidirectional=self.bidirectional)
