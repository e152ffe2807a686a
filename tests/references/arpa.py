"""ARPA files with string methods, dictionaries and recursion: slow, and written from their description alone.

ngram-format(5) of SRILM: \\data\\, the numbers of n-grams, sections of lines `log10 words [back-off]`, \\end\\;
p(w | h) is that of the line `h w` if there is one, else the back-off of `h` times p(w | h without its first word).
Nothing of src/ is used.
"""

from __future__ import annotations

import math

Gram = tuple[str, ...]


class SlowArpa:
    """The n-grams of a file: log10 probability and back-off of each."""

    def __init__(self, text: str):
        self.prob: dict[Gram, float] = {}
        self.backoff: dict[Gram, float] = {}
        order = 0
        for line in text[text.index("\\1-grams:") :].splitlines():
            fields = line.split()
            if line.startswith("\\end\\"):
                break
            if line.startswith("\\"):
                order = int(line[1 : line.index("-")])
            elif fields:
                gram = tuple(fields[1 : order + 1])
                self.prob[gram] = self.log(fields[0])
                self.backoff[gram] = self.log(fields[order + 1]) if len(fields) > order + 1 else 0.0
        self.order = order

    @staticmethod
    def log(field: str) -> float:
        """A number of the file; -99 stands for log 0."""
        return -math.inf if float(field) == -99 else float(field)

    def score(self, history: Gram, word: str) -> float:
        """log10 p(word | history)."""
        history = history[max(0, len(history) - self.order + 1) :]
        if (*history, word) in self.prob:
            return self.prob[*history, word]
        if not history:
            return self.prob.get(("<unk>",), -100.0)
        return self.backoff.get(history, 0.0) + self.score(history[1:], word)

    def line(self, words: list[str]) -> list[float]:
        """log10 of each word of a line and of its end."""
        known = [word if (word,) in self.prob else "<unk>" for word in words]
        history: Gram = ("<s>",)
        found = []
        for word in [*known, "</s>"]:
            found.append(self.score(history, word))
            history = (*history, word)
        return found
