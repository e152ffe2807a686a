"""Small data that needs no file of ours: generated, or from packages; what `ostinato demo` learns from."""
