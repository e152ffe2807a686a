"""Encoder-decoders word by word, from the papers' equations: nothing is hoisted, batched or padded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ostinato.nn.encoder_decoder import EncoderDecoder


def gru_step(weights: dict[str, Tensor], prefix: str, hidden: Tensor, x: Tensor) -> Tensor:
    """[Cho2014] eq. 5-8 with the reset after the product, for one row."""
    read = weights[f"{prefix}.from_input.weight"] @ x + weights[f"{prefix}.from_input.bias"]
    kept = weights[f"{prefix}.from_hidden.weight"] @ hidden + weights[f"{prefix}.from_hidden.bias"]
    (r_x, z_x, n_x), (r_h, z_h, n_h) = read.chunk(3), kept.chunk(3)
    update = torch.sigmoid(z_x + z_h)
    return (1 - update) * torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h) + update * hidden


def encode(weights: dict[str, Tensor], source: list[int], size: int) -> tuple[list[Tensor], Tensor]:
    """The annotations of one source by a bidirectional GRU, and its summary. Source: [Bahdanau2015] section 3.2."""
    words = [weights["encoder.embedding.weight"][word] for word in source]
    ahead, back, hidden = [], [], torch.zeros(size, dtype=words[0].dtype)
    for word in words:
        hidden = gru_step(weights, "encoder.stack.layers.0", hidden, word)
        ahead.append(hidden)
    hidden = torch.zeros_like(hidden)
    for word in reversed(words):
        hidden = gru_step(weights, "encoder.stack.backwards.0", hidden, word)
        back.append(hidden)
    return [torch.cat(pair) for pair in zip(ahead, reversed(back), strict=True)], torch.cat([ahead[-1], back[-1]])


def attend(weights: dict[str, Tensor], query: Tensor, annotations: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Context and weights. Source: [Bahdanau2015] eq. 5-6 and section A.1.2."""
    asked = weights["decoder.attention.from_query.weight"] @ query
    scores = []
    for value in annotations:
        key = weights["decoder.attention.from_value.weight"] @ value + weights["decoder.attention.from_value.bias"]
        scores.append(weights["decoder.attention.vector"] @ torch.tanh(asked + key))
    shares = torch.softmax(torch.stack(scores), 0)
    return sum((share * value for share, value in zip(shares, annotations, strict=True)), 0 * annotations[0]), shares


def say(network: EncoderDecoder, source: list[int], inputs: list[int]) -> tuple[Tensor, Tensor]:
    """Log-probs [T, outputs] and attention [T, S] of a GRU with tied vectors, in any of the forms of `Decoder`."""
    options: Any = network.options
    weights = dict(network.named_parameters())
    annotations, summary = encode(weights, source, options.hidden)
    hidden = torch.tanh(weights["decoder.bridge.linear.weight"] @ summary + weights["decoder.bridge.linear.bias"])
    features, said, looked = hidden.new_zeros(options.embedding), [], []
    for token in inputs:
        word, nothing = weights["decoder.embedding.weight"][token], hidden[:0]
        before = options.attention != "none" and options.attend == "before"
        context, share = attend(weights, hidden, annotations) if before else (nothing, nothing)
        if options.context == "every-step":
            context = summary
        beside = features if options.input_feeding else context
        hidden = gru_step(weights, "decoder.stack.layers.0", hidden, torch.cat([word, beside]))
        if options.attend == "after":
            context, share = attend(weights, hidden, annotations)
        again = word if before or options.context == "every-step" else nothing
        read = torch.cat([hidden, context, again])
        features = torch.tanh(weights["decoder.readout.weight"] @ read + weights["decoder.readout.bias"])
        scores = weights["decoder.embedding.weight"][: network.outputs] @ features + weights["decoder.head.bias"]
        said.append(torch.log_softmax(scores, 0))
        looked.append(share)
    return torch.stack(said), torch.stack(looked)
