"""ARPA files, the text form of back-off tables that other programs read and write."""

from __future__ import annotations

from ostinato.ngram.arpa_read import Read, is_arpa, read_arpa
from ostinato.ngram.arpa_write import write_arpa

__all__ = ["Read", "is_arpa", "read_arpa", "write_arpa"]
