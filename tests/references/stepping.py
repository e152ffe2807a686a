"""The slow twin of kernels/stepping.py: one step of a packed model in NumPy, every rounding written out.

int8: a product of rows x with weights q * s (integers, a scale a row) is (x' q) * (t * s), where x' = x / t rounded
to -127 .. 127 and t is the row's largest size / 127. bf16: x and the weights are rounded to bfloat16. The rest is
float64. table: the lowest layer's input product is not rounded before but after, to steps of its largest size / 32767.
"""

from __future__ import annotations

import numpy as np


def rounded_to_bf16(x):
    """The bfloat16 numbers next to float32 ones, ties to even."""
    word = np.asarray(x, np.float32).view(np.uint32)
    return ((word + 0x7FFF + (word >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def steps_of(x, most):
    """x as whole steps of most / 127, and the size of a step."""
    x, most = np.asarray(x, np.float32), np.asarray(most, np.float32)
    factor = np.where(most > 0, np.float32(127) / np.where(most > 0, most, np.float32(1)), np.float32(0))
    return np.rint(np.clip(x * factor, -127, 127)).astype(np.int64), most / np.float32(127)


def product(x, weights, precision):
    """x W' for rows x [B, K] and weights [N, K], as the precision has it."""
    if precision == "fp32":
        return np.asarray(x, np.float64) @ np.asarray(weights, np.float64).T
    if precision == "bf16":
        return rounded_to_bf16(x).astype(np.float64) @ rounded_to_bf16(weights).astype(np.float64).T
    whole, size = steps_of(weights, np.abs(weights).max(axis=1, keepdims=True))
    read, scale = steps_of(x, np.abs(np.asarray(x, np.float32)).max(axis=1, keepdims=True))
    return (read @ whole.T) * (scale.astype(np.float64) * size.T)


def kept(embedding, precision):
    """The embedding as the file has it."""
    if precision == "fp32":
        return embedding
    if precision == "bf16":
        return rounded_to_bf16(embedding)
    whole, size = steps_of(embedding, np.abs(embedding).max(axis=1, keepdims=True))
    return (whole * size).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell_step(kind, from_x, from_h, state, size, activation="tanh"):
    """The new state (h, and c if there is one) from what the gates get from the input and from h."""
    cut = lambda sums: [sums[:, place : place + size] for place in range(0, sums.shape[1], size)]  # noqa: E731
    if kind == "rnn":
        total = from_x + from_h
        return (np.maximum(total, 0) if activation == "relu" else np.tanh(total),)
    if kind == "gru":
        (r_x, z_x, n_x), (r_h, z_h, n_h) = cut(from_x), cut(from_h)
        reset, update = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
        return ((1 - update) * np.tanh(n_x + reset * n_h) + update * state[0],)
    gates, memory = cut(from_x + from_h), state[1]
    if kind == "lstm":
        i, f, g, o = gates
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
    elif kind == "lstm-1997":
        i, g, o = gates
        memory = memory + sigmoid(i) * np.tanh(g)
    else:
        i, g, o = gates
        memory = (1 - sigmoid(i)) * memory + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(memory), memory


def step(kind, options, arrays, precision, state, tokens, table=False):
    """Log-probs [B, V] and the new state, a tuple a layer, of a model given by the arrays of its float32 export."""
    embedding = kept(arrays["embedding.weight"], precision)
    x, after = embedding[tokens], []
    for number, before in enumerate(state):
        layer = {
            name.removeprefix(f"stack.layers.{number}."): array
            for name, array in arrays.items()
            if name.startswith(f"stack.layers.{number}.")
        }
        weights = layer["from_input.weight"]
        if table and number == 0:
            from_x = x.astype(np.float64) @ kept(weights, precision).astype(np.float64).T
        else:
            from_x = product(x, weights, precision)
        from_x = from_x + layer.get("from_input.bias", 0)
        if table and number == 0:
            size = np.abs(from_x).max(axis=1, keepdims=True) / 32767
            from_x = np.rint(from_x / size) * size
        from_h = product(before[0], layer["from_hidden.weight"], precision) + layer.get("from_hidden.bias", 0)
        if "candidate_bias" in layer:
            from_h[:, 2 * options["hidden"] :] += layer["candidate_bias"]
        new = cell_step(kind, from_x, from_h, before, options["hidden"], options.get("activation", "tanh"))
        after.append(new)
        handed = new[0]
        if options.get("layer_norm"):
            centred = handed - handed.mean(axis=1, keepdims=True)
            handed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
            handed = handed * arrays[f"stack.norms.{number}.weight"] + arrays[f"stack.norms.{number}.bias"]
        if options.get("residual") and handed.shape == x.shape:
            handed = handed + x
        x = handed
    if "project.weight" in arrays:
        x = product(x, arrays["project.weight"], precision)
    outputs = len(arrays["head.bias"])
    matrix = arrays.get("head.weight", arrays["embedding.weight"][:outputs])
    logits = product(x, matrix, precision) + arrays["head.bias"]
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), tuple(after)
