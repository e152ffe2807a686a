"""Small sequence models that remember with a fixed-size state."""

__version__ = "0.1.0"
