"""Captions as numbers, and their batches."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.core.vocabulary import Ids
from ostinato.nn.captioner import Captioner
from ostinato.tasks.captioning.data import Part
from ostinato.tasks.translation.encoding import Batch, longest_first, taught
from ostinato.tasks.translation.sides import Side
from ostinato.text.bucket import Places


class Encoded:
    """The captions of a part as numbers, one after another; every one ends with the stop symbol."""

    def __init__(self, part: Part, side: Side):
        self.part, self.vocabulary = part, side.vocabulary
        stop = np.array([side.vocabulary.stop])
        rows = [(place, text) for place, item in enumerate(part.items) for text in item.targets]
        self.items = [place for place, _ in rows]
        self.targets: list[Ids] = [np.concatenate([side.ids(text), stop]) for _, text in rows]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Pieces of each caption [N], with the stop symbol."""
        return np.array([len(target) for target in self.targets], np.int64)

    def batch(self, captioner: Captioner, rows: Places) -> Batch:
        """Some of the captions with their pictures, as tensors, the longest captions first."""
        rows = longest_first(rows, self.targets)
        pictures, lengths = captioner.batch([self.part.picture(self.items[row]) for row in rows.tolist()])
        arrays = taught([self.targets[row] for row in rows.tolist()], self.vocabulary.start)
        return Batch(pictures, lengths, *(torch.from_numpy(array).to(pictures.device) for array in arrays))
