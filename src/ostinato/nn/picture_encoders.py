"""Encoders of pictures and features: what a decoder can look at, place by place, and a vector for the whole."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError
from ostinato.core.registry import Registry
from ostinato.nn.captioner_options import CaptionerOptions
from ostinato.nn.decoder import Encoded
from ostinato.nn.encoder_decoder import check_lengths
from ostinato.nn.pooling import inside


class PictureEncoder(nn.Module):
    """Reads sources of one shape, each channel standardised as it was in training.

    shape: of a source, [H, W, channels] for pictures, [P, D] for features at up to P places. layout: rows and columns
    of the places, None where they have no order in a plane.
    """

    mean: Tensor  # [channels], of the training data
    scale: Tensor  # [channels], one over its standard deviation

    def __init__(self, shape: tuple[int, ...], options: CaptionerOptions):
        super().__init__()
        self.shape, self.size = shape, options.size
        self.layout: tuple[int, int] | None = None
        self.register_buffer("mean", torch.zeros(shape[-1]))
        self.register_buffer("scale", torch.ones(shape[-1]))

    def standardise(self, mean: Tensor, deviation: Tensor) -> None:
        """Take these [channels] as those of the training data; a channel that never changes stays as it is."""
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(deviation > 0, 1 / deviation.clamp(min=1e-12), torch.ones_like(deviation)))

    def places(self, length: int) -> int:
        """How many places there are to look at of a source of that length."""
        raise NotImplementedError

    def forward(self, sources: Tensor, lengths: Tensor) -> Encoded:
        """What a decoder needs of sources [B, S, ...] of which the first lengths [B] are there."""
        check_lengths(lengths, sources.shape[1])
        return self.read((sources - self.mean) * self.scale, lengths)

    def read(self, sources: Tensor, lengths: Tensor) -> Encoded:
        """`forward` of standardised sources."""
        raise NotImplementedError


picture_encoders: Registry[type[PictureEncoder]] = Registry("encoder")


@picture_encoders.register("vector")
class VectorEncoder(PictureEncoder):
    """h = tanh(W x + b) of all numbers of a source as one vector; there is nothing to look at.

    Source: [Vinyals2015].
    """

    def __init__(self, shape: tuple[int, ...], options: CaptionerOptions):
        super().__init__(shape, options)
        self.linear = nn.Linear(math.prod(shape), options.size)

    def places(self, length: int) -> int:
        return 0

    def read(self, sources: Tensor, lengths: Tensor) -> Encoded:
        there = inside(lengths, sources.shape[1]).view(*sources.shape[:2], *[1] * (sources.dim() - 2))
        flat = (sources * there).flatten(1)
        short = self.linear.in_features - flat.shape[1]
        summary = torch.tanh(self.linear(nn.functional.pad(flat, (0, short))))
        return Encoded(summary[:, None], torch.ones_like(summary[:, :1], dtype=torch.bool), summary)


class Placed(nn.Module):
    """h_p = tanh(W x_p + e_p): what is at a place, and which place it is; and the mean of h over the places.

    Attention alone could not tell one place from another.
    """

    def __init__(self, places: int, width: int, size: int):
        super().__init__()
        self.linear = nn.Linear(width, size)
        self.place = nn.Parameter(torch.randn(places, size) * 0.5)

    def forward(self, xs: Tensor, mask: Tensor) -> Encoded:
        """Of xs [B, P, width] where mask [B, P] is true."""
        values = torch.tanh(self.linear(xs) + self.place[: xs.shape[1]])
        counted = mask[:, :, None].to(values.dtype)
        return Encoded(values, mask, (values * counted).sum(dim=1) / counted.sum(dim=1))


@picture_encoders.register("grid")
class GridEncoder(PictureEncoder):
    """Features at given places, such as regions or a grid that another network made; see `Placed`."""

    def __init__(self, shape: tuple[int, ...], options: CaptionerOptions):
        super().__init__(shape, options)
        if len(shape) != 2:
            raise ConfigError(
                "model.encoder grid reads features at places, and these are pictures; take convolutional, or vector"
            )
        self.placed = Placed(*shape, options.size)

    def places(self, length: int) -> int:
        return length

    def read(self, sources: Tensor, lengths: Tensor) -> Encoded:
        encoded: Encoded = self.placed(sources, inside(lengths, sources.shape[1]))
        return encoded


@picture_encoders.register("convolutional")
class ConvolutionalEncoder(PictureEncoder):
    """Blocks of two 3 x 3 convolutions, each with normalised outputs and ReLU, then the largest of every 2 x 2.

    The numbers of one picture are normalised together, so no picture hangs on others. What is left is a grid of places,
    see `Placed`. Source: [Xu2015] for attention over the last convolution; [Wu2018] for the normalisation.
    """

    def __init__(self, shape: tuple[int, ...], options: CaptionerOptions):
        super().__init__(shape, options)
        if len(shape) != 3:
            raise ConfigError(
                "model.encoder convolutional reads pictures, and these are features; take grid, or vector"
            )
        height, width, depth = shape
        blocks = [block(*sizes) for sizes in pairwise([depth, *options.channels])]
        self.blocks = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(options.dropout)
        self.layout = halved(height, len(blocks)), halved(width, len(blocks))
        self.placed = Placed(math.prod(self.layout), options.channels[-1], options.size)

    def places(self, length: int) -> int:
        return int(self.placed.place.shape[0])

    def read(self, sources: Tensor, lengths: Tensor) -> Encoded:
        made = self.blocks(sources.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
        encoded: Encoded = self.placed(self.dropout(made), torch.ones_like(made[:, :, 0], dtype=torch.bool))
        return encoded


def block(before: int, after: int) -> nn.Sequential:
    """Two convolutions from `before` to `after` channels; an odd row or column is kept."""
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers += [nn.Conv2d(channels, after, 3, padding=1), nn.GroupNorm(1, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True))


def halved(size: int, times: int) -> int:
    """What is left of a size that is halved so often, a half counted whole."""
    return -(-size >> times)
