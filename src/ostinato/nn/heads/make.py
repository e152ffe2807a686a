"""The one way to make an output layer; importing this registers them all in `heads`."""

from __future__ import annotations

from torch import Tensor

from ostinato.nn.heads import adaptive, mixture, nce, sampled, softmax
from ostinato.nn.heads.base import Head, LinearHead, heads
from ostinato.nn.heads.options import HeadOptions, settle

__all__ = ["Head", "LinearHead", "adaptive", "heads", "make_head", "mixture", "nce", "sampled", "softmax"]


def make_head(
    options: HeadOptions,
    width: int,
    outputs: int,
    counts: Tensor | None = None,
    tied: Tensor | None = None,
) -> Head:
    """The output layer that the options ask for; its own `options` say what was decided.

    width: of the features it reads. counts: [outputs], how often each word stands in the training text; needed to
    train with a unigram proposal. tied: an embedding [outputs + 2, width] whose first rows are the output matrix.
    Raises ConfigError for options that do not fit the vocabulary.
    """
    assert tied is None or (len(tied) >= outputs and tied.shape[1:] == (width,))
    settled = settle(options, outputs, None if counts is None else counts.cpu().numpy())
    return heads[settled.kind](settled, width, outputs, counts, tied)
