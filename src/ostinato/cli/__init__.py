"""The command line: parse, call one function, print what it returns."""

from ostinato.cli.app import main

__all__ = ["main"]
