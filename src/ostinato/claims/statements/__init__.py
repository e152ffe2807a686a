"""The claims, one file each; importing this package registers them all. Heavy rooms open when one is measured."""

from ostinato.claims.statements import (
    clipping,
    derivative_products,
    exclusive_or,
    forget_bias,
    forget_gate,
    gru_and_lstm,
    initial_loss,
    kneser_ney,
    long_lags,
    negative_sampling,
    orthogonal_start,
    rare_words,
    serial_time,
    truncated_credit,
    weights_above_one,
)

__all__ = [
    "clipping",
    "derivative_products",
    "exclusive_or",
    "forget_bias",
    "forget_gate",
    "gru_and_lstm",
    "initial_loss",
    "kneser_ney",
    "long_lags",
    "negative_sampling",
    "orthogonal_start",
    "rare_words",
    "serial_time",
    "truncated_credit",
    "weights_above_one",
]
