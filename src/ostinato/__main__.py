"""`python -m ostinato` is the command line."""

from ostinato.cli import main

main()
