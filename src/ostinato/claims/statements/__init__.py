"""The claims, one file each; importing this package registers them all. Heavy rooms open when one is measured."""

from ostinato.claims.statements import (
    clipping,
    derivative_products,
    exclusive_or,
    initial_loss,
    kneser_ney,
    negative_sampling,
    serial_time,
    weights_above_one,
)

__all__ = [
    "clipping",
    "derivative_products",
    "exclusive_or",
    "initial_loss",
    "kneser_ney",
    "negative_sampling",
    "serial_time",
    "weights_above_one",
]
