"""Everything that may go wrong, as one tree.

    OstinatoError
      ConfigError       a key or value of a configuration or command (exit code 2)
      DataError         a text, corpus or table that cannot be used; names file and line
      FormatError       a file of ours is damaged, incomplete, newer, or not what it should be
      MismatchError     two things that do not belong together (model and vocabulary, two scores)
      ShapeError        arrays whose shapes do not fit each other
      DivergedError     training met NaN or Inf
      PeerError         another process of a data-parallel training is gone
      StorageError      the disk is full, read-only, or the target already exists
      Interrupted       the user stopped a run, which was saved (exit code 130)

Each message says what is wrong, where, and what to do next.
"""

from __future__ import annotations


class OstinatoError(Exception):
    """Base of every error a user can cause; `exit_code` is what the command line returns."""

    exit_code = 1


class ConfigError(OstinatoError):
    """A key or value of a configuration or command is wrong."""

    exit_code = 2


class DataError(OstinatoError):
    """A text or corpus cannot be used."""


class FormatError(OstinatoError):
    """A file of ours is damaged, incomplete or newer than this version."""


class MismatchError(OstinatoError):
    """Two things do not belong together."""


class ShapeError(OstinatoError):
    """Arrays whose shapes do not fit each other."""


class DivergedError(OstinatoError):
    """Training met a number that is not finite."""


class PeerError(OstinatoError):
    """Another process of a data-parallel training has ended or cannot be reached."""


class StorageError(OstinatoError):
    """A file could not be written or already exists."""


class Interrupted(OstinatoError):
    """The user stopped a run; it was saved and can be resumed."""

    exit_code = 130
