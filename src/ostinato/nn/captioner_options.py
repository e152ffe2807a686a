"""Options of what describes pictures and features. No torch here: the command line reads this for its help."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.nn.encoder_decoder_options import DecoderOptions
from ostinato.nn.options import Size

EncoderName = Literal["vector", "grid", "convolutional"]
CHANNELS = (32, 64)


@dataclass(frozen=True, config=STRICT)
class CaptionerOptions(DecoderOptions):
    """An encoder of pictures or features, and a decoder."""

    encoder: EncoderName = "convolutional"
    """convolutional: of pictures; grid: of features at places, each a vector; vector: of all numbers as one vector, for
    attention none."""
    channels: tuple[Size, ...] = CHANNELS
    """convolutional: of each block of two convolutions, after which the picture is half as wide and high."""
    size: Size = 128
    """Of the vector of each place, or of the only one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder == "vector" and self.attention != "none":
            raise ValueError("the encoder vector leaves one place to look at; set attention to none")
        if self.encoder != "convolutional" and self.channels != CHANNELS:
            raise ValueError(f"channels are for the encoder convolutional, not {self.encoder}; leave them out")
        if not self.channels:
            raise ValueError("channels names at least one block, as 32 64")
