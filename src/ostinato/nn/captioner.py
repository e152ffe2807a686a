"""Describes pictures and features: an encoder of them before a recurrent decoder, and the door of both."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.core.errors import MismatchError
from ostinato.nn.captioner_options import CaptionerOptions
from ostinato.nn.decoder import Decoder
from ostinato.nn.encoder_decoder import Describer
from ostinato.nn.picture_encoders import PictureEncoder, picture_encoders
from ostinato.nn.translator import Describing

Picture: TypeAlias = NDArray[Any]
"""[H, W, channels], or features [P, D] at P places; bytes (uint8) are read as shares of 255."""


class CaptionNetwork(Describer):
    """Reads a picture or features and says a description, word by word.

    shape: [H, W, channels] of every picture, or [P, D] for features at up to P places. outputs, options, counts: as of
    `EncoderDecoder`. Raises ConfigError for options that do not fit the shape or each other.
    Source: [Vinyals2015]; with attention [Xu2015], the deterministic form. Differs: the attention and cells are those
    of the decoder, and no gate weighs the context.
    """

    encoder: PictureEncoder

    def __init__(self, shape: Sequence[int], outputs: int, options: CaptionerOptions, counts: Tensor | None = None):
        encoder = picture_encoders[options.encoder](tuple(shape), options)
        super().__init__(encoder, Decoder(outputs, encoder.size, encoder.size, options, counts))
        self.options = dataclasses.replace(options, head=self.decoder.options.head)


class Captioner(Describing[Picture]):
    """A caption network whose sources are pictures, or features at as many places as each has."""

    network: CaptionNetwork

    def places(self, source: Picture) -> int:
        """Those of the grid that the encoder makes, or the given ones."""
        return self.network.encoder.places(len(source))

    def batch(self, sources: Sequence[Picture]) -> tuple[Tensor, Tensor]:
        """Numbers [B, S, ...] and lengths [B] of sources. Raises MismatchError for one of another shape."""
        shape = self.network.encoder.shape
        for source in sources:
            check_shape(source.shape, shape)
        lengths = np.array([len(source) for source in sources], np.int64)
        array = np.zeros((len(sources), int(lengths.max(initial=1)), *shape[1:]), np.float32)
        for row, source in zip(array, sources, strict=True):
            row[: len(source)] = numbers(source)
        device = self.network.encoder.mean.device
        given = torch.from_numpy(array).to(device, self.network.encoder.mean.dtype)
        return given, torch.from_numpy(lengths).to(device)


def numbers(source: Picture) -> NDArray[np.float32]:
    """The numbers of a source in float32; bytes from 0 to 1."""
    found = source.astype(np.float32)
    return found / np.float32(255) if source.dtype == np.uint8 else found


def check_shape(given: tuple[int, ...], known: tuple[int, ...]) -> None:
    """Raise MismatchError unless a source of shape `given` can be read where `known` was learnt from.

    Features may be at fewer places.
    """
    fits = given == known if len(known) == 3 else len(given) == 2 and given[1] == known[1] and 1 <= given[0] <= known[0]
    if not fits:
        what = "pictures" if len(known) == 3 else "features at up to so many places"
        raise MismatchError(
            f"a source of shape {given}, but this model has learnt from {what} of shape {known}; bring it to that shape"
        )
