"""Byte-pair encoding over bytes: frequent neighbours become one piece, and nothing is ever unknown.

Source: [Sennrich2016]; over bytes as [Radford2019], through the `tokenizers` library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ostinato.core.errors import ConfigError, FormatError, MismatchError
from ostinato.text.incremental import ByteWriter, Writer
from ostinato.text.tokenise import Tokeniser, tokenisers

LEAST_PIECES = 257
"""The 256 bytes and one pair."""


@tokenisers.register("bpe")
class BPE(Tokeniser):
    """Pieces learned by `train`; a blank belongs to the piece after it.

    A piece is spelled with one visible character a byte, as GPT-2 does it: a blank is `Ġ`.
    """

    name, unit = "bpe", "piece"

    def __init__(self, model: Any):
        self._model = model  # tokenizers.Tokenizer, which has no types
        by_id = sorted(model.get_vocab().items(), key=lambda item: item[1])
        self._inventory = tuple(piece for piece, _ in by_id)

    @property
    def inventory(self) -> tuple[str, ...]:
        return self._inventory

    @property
    def signature(self) -> str:
        return f"bpe{len(self._inventory)}"

    def line(self, text: str) -> list[str]:
        found: list[str] = self._model.encode(text, add_special_tokens=False).tokens
        return found

    def writer(self) -> Writer:
        return ByteWriter(_bytes_of)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "model": json.loads(self._model.to_str())}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> BPE:
        from tokenizers import Tokenizer

        described = json.dumps(content["model"], ensure_ascii=False)
        try:
            return cls(Tokenizer.from_str(described))
        except Exception as fault:  # the library raises nothing narrower
            raise FormatError(f"the BPE model is damaged ({fault}); restore the file or train again") from None

    def __repr__(self) -> str:
        return f"BPE({len(self._inventory):,} pieces)"


def train(lines: Iterable[str], pieces: int) -> BPE:
    """A tokeniser of exactly that many pieces, learned from the lines; only pairs seen twice are joined.

    Raises ConfigError if `pieces` is below LEAST_PIECES or more than the text yields.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    if pieces < LEAST_PIECES:
        raise ConfigError(f"bpe_pieces must be at least {LEAST_PIECES} (the 256 bytes and one pair), got {pieces}")
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=pieces, min_frequency=2, show_progress=False, initial_alphabet=sorted(_BYTE_OF)
    )
    model.train_from_iterator(lines, trainer)
    trained = BPE(model)
    if len(trained.inventory) < pieces:
        raise ConfigError(
            f"bpe_pieces is {pieces:,}, but the training text yields only {len(trained.inventory):,}; "
            "lower it to that or give more text"
        )
    return trained


def _byte_letters() -> dict[str, int]:
    """The visible character of every byte: itself in Latin-1 where it prints, the others from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}


_BYTE_OF = _byte_letters()


def _bytes_of(piece: str) -> bytes:
    try:
        return bytes(_BYTE_OF[letter] for letter in piece)
    except KeyError:
        raise MismatchError(f"the piece {piece!r} is not of this BPE; it belongs to another tokeniser") from None
