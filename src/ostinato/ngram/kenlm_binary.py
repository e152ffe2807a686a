"""Reading the binary files that KenLM's build_binary makes.

A file is a header, the hashes of the words, the n-grams, and the words themselves. Learned from KenLM
[Heafield2011], version 5 of the format: lm/binary_format.cc, trie.cc, bhiksha.cc, quantize.cc, search_hashed.hh.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ostinato.core.errors import DataError
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.vocabulary import START, UNKNOWN
from ostinato.ngram.arpa_read import Read
from ostinato.ngram.arpa_words import identified, spread
from ostinato.ngram.kenlm_format import MAGIC, TRIE, nats, read_header, read_words, turned
from ostinato.ngram.kenlm_probing import read_probing
from ostinato.ngram.kenlm_trie import read_trie
from ostinato.ngram.levels import assemble


def read_kenlm_binary(path: str | Path, watch: Watch = unwatched) -> Read:
    """The table of a KenLM file, its vocabulary, and notes, which the table has too.

    Tries, plain, quantised, compressed or both, and hash tables ("probing"), whose n-grams are found again; that
    takes a few nanoseconds for each pair of words, and is refused where it would take many minutes. The words keep
    the order of the file. N-grams with `<s>` inside are left out: nothing predicts it.
    Raises DataError for a file that is damaged, has no words in it, or too large a hash table.
    """
    path = Path(path)
    try:
        data = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as fault:
        raise DataError(f"{path}: cannot be read ({fault})") from None
    header = read_header(path, data)
    logs, orders, end = read_trie(header, data) if header.kind >= TRIE else read_probing(header, data, watch)
    ids_there = read_words(header, data, end, len(logs))
    vocabulary, ids, notes = identified(ids_there, UNKNOWN, str(path))
    words = spread(vocabulary, ids, nats(logs[:, 0]), nats(logs[:, 1]))
    found = []
    for order, level in enumerate(orders, 2):
        found.append(level)
        watch(Progress("reading KenLM", sum(header.counts[:order]), order / header.order, f"order {order}"))
    levels, unused = turned(header, found, words, ids)
    found.clear()
    if unused:
        notes.append(f"{unused:,} n-grams with {START} after their first word were left out")
    table = assemble(levels, notes, "kenlm", vocabulary.stop)
    return Read(table, vocabulary, table.notes)


def is_kenlm_binary(path: str | Path) -> bool:
    """Whether a file begins as KenLM's binary files do."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
