"""Labels as words arrive: one after each word, and a state of fixed size between them."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from itertools import chain
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.core.vocabulary import STOP
from ostinato.nn.lm import evaluating
from ostinato.nn.tagger import Tagger, TaggerState
from ostinato.tasks.tagging.answers import spelled
from ostinato.tasks.tagging.data import Corpus
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.read import STDIN, LineReader
from ostinato.text.tokenise import Blank, Char


class Online:
    """A tagger that reads one word at a time, with the same labels as for the whole sentence.

    Raises ConfigError if its labels depend on what comes later.
    """

    def __init__(self, network: Tagger, corpus: Corpus):
        labels = corpus.labels
        if labels.learnt != labels.scheme:
            raise ConfigError(
                f"the labels were learnt in the scheme {labels.learnt} and are written as {labels.scheme} when the "
                "whole sentence is there; answer without --online, or train without model.scheme"
            )
        self.network, self.corpus = network, corpus
        self.start = network.init_state(1)

    def step(self, state: TaggerState, word: str) -> tuple[str, NDArray[np.float32], TaggerState]:
        """Read a word: its label, the log-probs [K] (nats) of all labels, and the new state. Begin with `start`."""
        forms = self.corpus.lexicon.forms([word])
        with evaluating(self.network):
            table = spelled(self.network, forms, self.corpus.lexicon)
            ids = torch.from_numpy(forms.words).to(table.device)
            log_probs, after = self.network.step(state, ids, table)
        found: NDArray[np.float32] = log_probs[0].float().cpu().numpy()
        return self.corpus.labels.names[int(after.label)], found, after

    def words(self, path: str) -> Iterator[str]:
        """The words (or characters) of plain lines as soon as they are certain, `</s>` where a line ends."""
        is_word = self.corpus.source.unit == "word"
        reader, last = Pipeline(Normaliser(()), Blank() if is_word else Char()).reader(), STOP
        for data in chain(_bytes(path), [None]):
            for piece in reader.end() if data is None else reader.feed(data):
                if not piece.isspace():
                    last = piece
                    yield piece
        if last != STOP:
            yield STOP


def _bytes(path: str) -> Iterator[bytes]:
    """The bytes of a text as they arrive; of a file, whole lines."""
    if path == STDIN:
        stdin = cast(io.BufferedReader, sys.stdin.buffer)
        while data := stdin.read1(1 << 16):
            yield data
        return
    for chunk, _ in LineReader(path, "keep").chunks(1 << 16):
        yield chunk + b"\n"
