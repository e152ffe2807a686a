"""The compiled step of stream/packed.py against its slow twin, and what must hold however many rows there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, MismatchError, ShapeError
from ostinato.core.state import leaves
from ostinato.core.vocabulary import Vocabulary
from ostinato.kernels.stepping import step as kernel
from ostinato.stream.model import StreamModel
from ostinato.stream.packed import PackedStepper
from references import stepping as twin

GATES = {"rnn": 1, "lstm": 4, "gru": 3, "lstm-1997": 3, "lstm-coupled": 3}
PRECISIONS = ("fp32", "bf16", "int8")


def make(kind="lstm", hidden=40, words=70, layers=2, embedding=None, tied=True, biases=1, **options):
    """The kind, options and arrays of a random model, with a vocabulary of that many words."""
    rng = np.random.default_rng(hidden + 7 * words)
    width = embedding or hidden
    rows = GATES[kind] * hidden

    def some(*shape):
        return rng.uniform(-1, 1, shape).astype(np.float32) * np.float32(hidden**-0.5)

    vocabulary = Vocabulary([f"w{number}" for number in range(words)])
    outputs = vocabulary.outputs
    arrays = {"embedding.weight": some(outputs + 2, width), "head.bias": some(outputs)}
    for number in range(layers):
        name = f"stack.layers.{number}."
        arrays[name + "from_input.weight"] = some(rows, width if number == 0 else hidden)
        arrays[name + "from_input.bias"] = some(rows)
        arrays[name + "from_hidden.weight"] = some(rows, hidden)
        if biases == 2:
            arrays[name + "from_hidden.bias"] = some(rows)
        elif kind == "gru":
            arrays[name + "candidate_bias"] = some(hidden)
        if options.get("layer_norm"):
            arrays[f"stack.norms.{number}.weight"], arrays[f"stack.norms.{number}.bias"] = (
                1 + some(hidden),
                some(hidden),
            )
    if tied and width != hidden:
        arrays["project.weight"] = some(width, hidden)
    if not tied:
        arrays["head.weight"] = some(outputs, hidden)
    options = {"hidden": hidden, "layers": layers, "embedding": embedding, "tied": tied, **options}
    return kind, options, arrays, vocabulary


def model_of(kind, options, arrays, vocabulary, precision="fp32"):
    whole = StreamModel(kind, options, arrays, vocabulary)
    return whole if precision == "fp32" else whole.encoded(precision)


def pack(model, **how):
    return PackedStepper(model.network, model.head, model.vocabulary, model.precision, **how)


def packed(precision="int8", how=None, **what):
    return pack(model_of(*make(**what), precision), **(how or {}))


def some_state(stepper, batch, seed=0):
    """A state such as cells have: within (-1, 1)."""
    rng = np.random.default_rng(seed)
    return stepper.state_of(rng.uniform(-1, 1, (stepper.leaves, batch, stepper.hidden)).astype(np.float32))


def some_tokens(stepper, batch, seed=0):
    return np.random.default_rng(seed).integers(0, stepper.outputs + 2, batch)


def check_against_twin(made, precision, table, batch=5, steps=3):
    kind, options, arrays, _ = made
    stepper = pack(model_of(*made, precision), table=table)
    state, tokens = some_state(stepper, batch), some_tokens(stepper, batch * steps).reshape(steps, batch)
    near = 2e-4 if precision == "bf16" else 1e-5  # a sum that is off in its last bit may be rounded the other way
    for read in tokens:
        expected, after = twin.step(kind, options, arrays, precision, state[0], read, table and precision != "fp32")
        log_probs, state = stepper.step(state, read)
        np.testing.assert_allclose(log_probs, expected, rtol=0, atol=near)
        for got, wanted in zip(state[0], after, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=near)


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", GATES)
def test_a_step_is_that_of_the_twin(kind, precision, table):
    check_against_twin(make(kind), precision, table)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "what",
    [
        {"embedding": 24},
        {"embedding": 24, "tied": False},
        {"residual": True, "layer_norm": True},
        {"residual": True},
        {"kind": "rnn", "activation": "relu"},
        {"kind": "lstm", "biases": 2},
        {"kind": "gru", "biases": 2, "layer_norm": True},
    ],
)
def test_options_of_the_stack_are_those_of_the_twin(what, precision):
    check_against_twin(make(**what), precision, table=False)
    check_against_twin(make(**what), precision, table=True)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(list(GATES)), st.integers(1, 70), st.integers(1, 200), st.integers(1, 3), st.integers(1, 9),
    st.integers(1, 27), st.booleans(), st.booleans(),
)  # fmt: skip
def test_sizes_may_be_any(kind, hidden, words, layers, width, batch, residual, own_width):
    made = make(kind, hidden, words, layers, embedding=width if own_width else None, residual=residual)
    check_against_twin(made, "fp32", False, batch, steps=1)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_other_rows_never_change_a_row(precision):
    """Bit for bit, whatever the tile a row falls into, the block of rows, or the thread."""
    stepper, shared = packed(precision), packed(precision, {"threads": 2})
    state, tokens = some_state(stepper, 256), some_tokens(stepper, 256)
    whole, after = stepper.step(state, tokens)
    for batch in (1, 2, 3, 4, 5, 16, 17, 31, 100, 256):
        some = stepper.state_of(np.stack([leaf[-batch:] for leaf in leaves(state)]))
        for other in (stepper, shared):
            log_probs, new = other.step(some, tokens[-batch:])
            np.testing.assert_array_equal(log_probs, whole[-batch:])
            for got, wanted in zip(leaves(new), leaves(after), strict=True):
                np.testing.assert_array_equal(got, wanted[-batch:])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_broken_row_breaks_no_other(precision):
    stepper = packed(precision, hidden=21, embedding=37)
    state, tokens = some_state(stepper, 9), some_tokens(stepper, 9)
    expected, _ = stepper.step(state, tokens)
    broken = stepper.state_of(np.full((stepper.leaves, 9, stepper.hidden), np.nan, np.float32))
    stepper.step(broken, tokens)
    np.testing.assert_array_equal(stepper.step(state, tokens)[0], expected)
    for leaf in leaves(state):
        leaf[4] = np.nan
    np.testing.assert_array_equal(np.delete(stepper.step(state, tokens)[0], 4, 0), np.delete(expected, 4, 0))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_without_the_instructions_the_step_is_the_same(precision):
    """Integers bit for bit; floats to the rounding of a sum."""
    fast, plain = packed(precision, {"native": True}), packed(precision, {"native": False})
    state, tokens = some_state(fast, 7), some_tokens(fast, 7)
    log_probs, after = fast.step(state, tokens)
    others, same = plain.step(state, tokens)
    np.testing.assert_allclose(others, log_probs, rtol=0, atol=0 if precision == "int8" else 1e-5)
    for got, wanted in zip(leaves(same), leaves(after), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=0 if precision == "int8" else 1e-6)


def test_a_distribution_sums_to_one_and_a_state_is_a_value():
    stepper = packed(words=1000)
    state = some_state(stepper, 3)
    kept = [leaf.copy() for leaf in leaves(state)]
    for seed in range(20):
        log_probs, _ = stepper.step(state, some_tokens(stepper, 3, seed))
        np.testing.assert_allclose(np.exp(log_probs.astype(np.float64)).sum(axis=1), 1, atol=1e-6)
        assert log_probs.dtype == np.float32
    for leaf, old in zip(leaves(state), kept, strict=True):
        np.testing.assert_array_equal(leaf, old)


def test_a_score_is_a_fold_of_steps_and_a_lane_goes_on_anywhere():
    stepper = packed()
    ids = some_tokens(stepper, 24).reshape(2, 12) % stepper.outputs
    picked, end = stepper.score(stepper.init_state(2), ids[:, :-1], ids[:, 1:])
    state, lane = stepper.init_state(2), stepper.open(2)
    for place in range(11):
        log_probs, state = stepper.step(state, ids[:, place])
        np.testing.assert_array_equal(picked[:, place], log_probs[[0, 1], ids[:, place + 1]])
        np.testing.assert_array_equal(lane.read(ids[:, place]), log_probs)
        frozen, lane = lane.state, stepper.open(2)
        lane.start(frozen)
    for got, wanted, also in zip(leaves(end), leaves(state), leaves(lane.state), strict=True):
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(also, wanted)


def test_any_array_of_tokens_is_read_without_compiling_again():
    stepper = packed()
    expected, _ = stepper.step(stepper.init_state(2), np.array([3, 5]))
    known = len(kernel.signatures)
    frozen = np.array([3, 0, 5, 0], np.int32)[::2]
    frozen.flags.writeable = False
    np.testing.assert_array_equal(stepper.step(stepper.init_state(2), frozen)[0], expected)
    np.testing.assert_array_equal(stepper.open(2).read(frozen), expected)
    assert len(kernel.signatures) == known


def test_eight_bits_cost_little_and_bf16_less():
    """Against the unrounded model: what rounding costs grows from bf16 to int8 and stays small."""
    made = make(hidden=64, words=300)
    exact, tokens = pack(model_of(*made)), some_tokens(pack(model_of(*made)), 40)
    lost = {}
    for precision in ("bf16", "int8"):
        rounded, worst = pack(model_of(*made, precision)), 0.0
        states = [exact.init_state(1), rounded.init_state(1)]
        for token in tokens[:, None]:
            (wanted, states[0]), (got, states[1]) = exact.step(states[0], token), rounded.step(states[1], token)
            worst = max(worst, float((np.exp(wanted) * (wanted - got)).sum()))
        lost[precision] = worst
    assert lost["bf16"] < lost["int8"] < 1e-4


def test_what_does_not_fit_is_refused():
    stepper = packed()
    with pytest.raises(MismatchError, match="tokens reach from 0 to 9999"):
        stepper.step(stepper.init_state(2), np.array([0, 9999]))
    with pytest.raises(MismatchError, match="tokens reach from -1"):
        packed(how={"threads": 2}).step(stepper.init_state(90), np.array([0] * 89 + [-1]))
    with pytest.raises(ShapeError, match="2 tokens with a state of shape"):
        stepper.step(stepper.init_state(1), np.array([0, 1]))
    with pytest.raises(ShapeError, match="for 1 rows"):
        stepper.open(1).read(np.array([0, 1]))
    with pytest.raises(ConfigError, match="zoneout"):
        packed(zoneout=0.1)
    with pytest.raises(ConfigError, match="cells of kind Elman are not"):
        packed(kind="rnn", activation="gelu")
