"""Models that step without torch, and sessions of them: the laws, the numbers of training, what is refused."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import test_laws
from ostinato.core import state as states
from ostinato.core.errors import ConfigError, FormatError, MismatchError, ShapeError
from ostinato.nn.lm import NeuralLM
from ostinato.stream import Sessions, StreamModel, is_stream_file, open_model, save_model, surprise, top_k
from ostinato.stream.cells import cells
from ostinato.stream.matrix import PRECISIONS, Matrix, decoded, encoded
from ostinato.stream.session import Session
from ostinato.tasks.language.export import options_of
from test_laws import NEURAL, VOCABULARY, neural

LAWS = {
    name: law
    for name, law in vars(test_laws).items()
    if name.startswith("test_") and "model" in inspect.signature(law).parameters
}
globals().update(LAWS)  # every law of tests/test_laws.py holds here too, with the fixture below

TEXT = {"format": 1, "normalise": [], "tokeniser": {"name": "blank"}}
TRAINED = {name: neural(name) for name in NEURAL}


def exported(name: str, precision: str = "fp32", compiled: bool = True) -> StreamModel:
    """The stream model of a small network of tests/test_laws.py."""
    trained = TRAINED[name]
    assert isinstance(trained, NeuralLM)
    arrays = {key: tensor.numpy() for key, tensor in trained.network.state_dict().items()}
    plain = StreamModel(NEURAL[name][0], options_of(trained.network), arrays, VOCABULARY, "fp32", name, compiled)
    return plain if precision == "fp32" else plain.encoded(precision)  # type: ignore[arg-type]


CASES = [
    *((kind, "fp32", True) for kind in cells),
    ("nplm", "fp32", True),
    ("lstm-deep", "bf16", True),
    ("lstm", "int8", True),
    ("lstm", "int8", False),
    ("gru-mixture", "int8", False),
]


@pytest.fixture(params=CASES, ids=str, scope="module")
def model(request: pytest.FixtureRequest) -> StreamModel:
    return exported(*request.param)


def random_ids(rows: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, VOCABULARY.outputs, (rows, steps))


def test_every_law_is_run_here_too() -> None:
    assert {"test_score_equals_a_fold_of_step", "test_a_stream_may_be_cut_anywhere"} <= set(LAWS)
    assert {"test_a_state_is_a_value", "test_every_distribution_sums_to_one"} <= set(LAWS)


@pytest.mark.parametrize("name", NEURAL)
@pytest.mark.parametrize("compiled", [True, False])
def test_an_export_gives_the_numbers_of_the_network(name: str, compiled: bool) -> None:
    """Step by step and whole, and a state of one is a state of the other."""
    trained, model = TRAINED[name], exported(name, compiled=compiled)
    inputs, targets = random_ids(3, 12), random_ids(3, 12, 1)
    wanted, end = trained.score(trained.init_state(3), inputs, targets)
    found, last = model.score(model.init_state(3), inputs, targets)
    np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-5)
    assert states.same(last, end, atol=2e-5)
    tokens = np.array([VOCABULARY.start, 2, 3])
    np.testing.assert_allclose(model.step(end, tokens)[0], trained.step(end, tokens)[0], rtol=3e-6, atol=1e-5)
    assert states.same(model.init_state(2), trained.init_state(2))


@pytest.mark.parametrize("name", NEURAL)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_fewer_bits_cost_little_perplexity(name: str, precision: str) -> None:
    plain, narrow = exported(name), exported(name, precision)
    inputs, targets = random_ids(4, 60), random_ids(4, 60, 1)
    nats = [-one.score(one.init_state(4), inputs, targets)[0].mean() for one in (plain, narrow)]
    assert nats[0] != nats[1]
    assert nats[1] == pytest.approx(nats[0], rel=0.02)
    assert narrow.parameters == plain.parameters
    assert narrow.weight_bytes < plain.weight_bytes


@given(seed=st.integers(0, 1000), rows=st.integers(1, 5), columns=st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_a_stored_matrix_is_as_near_as_its_form_allows(seed: int, rows: int, columns: int) -> None:
    chance = np.random.default_rng(seed)
    weights = (chance.normal(size=(rows, columns)) * 10 ** chance.uniform(-3, 3)).astype(np.float32)
    x = chance.normal(size=(2, columns)).astype(np.float32)
    for precision in PRECISIONS:
        arrays = encoded("w", weights, precision)
        matrix = Matrix(arrays["w"], arrays.get("w.scale"))
        error = np.abs(matrix.dense - weights)
        if precision == "int8":
            assert (error <= np.abs(weights).max(axis=1, keepdims=True) / 127 * 0.5001).all()
        else:
            assert (error <= np.abs(weights) * {"fp32": 0, "bf16": 2.0**-8}[precision]).all()
        np.testing.assert_allclose(matrix.multiply(x), x @ matrix.dense.T, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(matrix.rows(np.array([rows - 1, 0])), matrix.dense[[rows - 1, 0]])
        np.testing.assert_array_equal(matrix.part(0, 1).dense, matrix.dense[:1])


def test_bfloat16_rounds_to_the_nearest_and_ties_to_even() -> None:
    """8 bits behind the first: between 1 and 1 + 2^-7 the middle goes to 1, between 1 + 2^-7 and 1 + 2^-6 up."""
    step = 2.0**-7
    weights = np.array([[1, 1 + step / 2, 1 + 1.5 * step, 1 + 0.51 * step, -3e38, 0]], np.float32)
    found = decoded(encoded("w", weights, "bf16")["w"], None)
    np.testing.assert_allclose(found[0, :4], [1, 1, 1 + 2 * step, 1 + step], rtol=0)
    assert np.isfinite(found).all()


def test_a_row_of_zeros_stays_one_in_int8() -> None:
    arrays = encoded("w", np.array([[0, 0], [-2, 1]], np.float32), "int8")
    np.testing.assert_array_equal(arrays["w"], [[0, 0], [-127, 64]])
    np.testing.assert_allclose(decoded(arrays["w"], arrays["w.scale"]), [[0, 0], [-2, 64 * 2 / 127]], rtol=1e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_saved_model_gives_the_same_numbers(precision: str, tmp_path: Path) -> None:
    model = exported("lstm-deep", precision)
    save_model(tmp_path / "m", model, TEXT, regime="stream", run="runs/x")
    stored = open_model(tmp_path / "m")
    again = stored.model
    assert is_stream_file(tmp_path / "m")
    assert (stored.text, stored.about["regime"], stored.about["run"]) == (TEXT, "stream", "runs/x")
    assert (again.precision, again.kind, again.vocabulary) == (precision, "lstm", VOCABULARY)
    inputs, targets = random_ids(2, 9), random_ids(2, 9, 1)
    found = again.score(again.init_state(2), inputs, targets)[0]
    np.testing.assert_array_equal(found, model.score(model.init_state(2), inputs, targets)[0])


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    model = exported("gru")
    save_model(path, model, TEXT)
    data = path.read_bytes()
    for cut in (0, 5, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(FormatError, match=str(path)):
            open_model(path)
    for array in model.arrays.values():
        place = data.index(array.tobytes()) + array.nbytes // 2
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(FormatError, match="changed after saving"):
            open_model(path)
    path.write_bytes(data.replace(rb"\"format\": 2", rb"\"format\": 9"))
    with pytest.raises(FormatError, match="newer"):
        open_model(path)
    path.write_bytes(data.replace(rb"\"kind\": \"stream\"", rb"\"kind\": \"streem\""))
    with pytest.raises(FormatError, match="streem"):
        open_model(path)
    assert not is_stream_file(path)
    assert not is_stream_file(tmp_path / "nothing")


def test_arrays_of_another_shape_or_too_many_are_refused() -> None:
    model = exported("lstm")
    name = "stack.layers.0.from_hidden.weight"
    for wrong, told in (
        ({name: model.arrays[name][:-1]}, "from_hidden"),
        ({name: model.arrays[name].astype(np.float64)}, "float64"),
        ({"head.extra": np.zeros(2, np.float32)}, "head.extra"),
    ):
        with pytest.raises(FormatError, match=told):
            StreamModel("lstm", model.options, {**model.arrays, **wrong}, VOCABULARY)
    with pytest.raises(FormatError, match=r"head\.bias is missing"):
        StreamModel("lstm", model.options, {k: v for k, v in model.arrays.items() if k != "head.bias"}, VOCABULARY)
    with pytest.raises(ConfigError, match="transformer"):
        StreamModel("transformer", model.options, model.arrays, VOCABULARY)
    with pytest.raises(ConfigError, match="bidirectional"):
        StreamModel("lstm", {**model.options, "bidirectional": True}, model.arrays, VOCABULARY)


def test_opening_and_stepping_imports_no_torch(tmp_path: Path) -> None:
    save_model(tmp_path / "m", exported("gated-delta"), TEXT)
    code = (
        "import sys, numpy as np\n"
        "from ostinato.stream import Sessions, open_model\n"
        f"sessions = Sessions(open_model({str(tmp_path / 'm')!r}).model)\n"
        "print(sessions.step([sessions.open()], np.array([2])).shape)\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'pydantic')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == [f"(1, {VOCABULARY.outputs})", "[]"]


def test_sessions_side_by_side_are_what_each_is_alone() -> None:
    """Forty sessions of different length, opened, stepped and closed in a random order."""
    model, chance = exported("lstm-deep"), np.random.default_rng(3)
    sessions, alone = Sessions(model), {}
    for _ in range(60):
        for _ in range(chance.integers(0, 3)):
            alone[sessions.open()] = model.init_state(1)
        some = chance.permutation(list(alone))[: chance.integers(0, 20)]
        if not len(some):
            continue
        tokens = chance.integers(0, len(VOCABULARY), len(some))
        log_probs = sessions.step(some, tokens)
        for number, token, found in zip(some.tolist(), tokens, log_probs, strict=True):
            wanted, alone[number] = model.step(alone[number], np.array([token]))
            np.testing.assert_allclose(found, wanted[0], atol=1e-5)
        if chance.random() < 0.3:
            sessions.close(int(some[0]))
            del alone[int(some[0])]
    assert len(sessions) == len(alone) > 20
    for number, state in alone.items():
        assert states.same(sessions.state(number), state, atol=1e-5)


def test_a_session_moved_to_another_process_goes_on_exactly(tmp_path: Path) -> None:
    save_model(tmp_path / "m", exported("gru"), TEXT)
    sessions = Sessions(open_model(tmp_path / "m").model)
    number = sessions.open()
    for token in (VOCABULARY.start, 2, 3, 4):
        sessions.step([number], np.array([token]))
    (tmp_path / "s").write_bytes(sessions.save(number))
    code = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from ostinato.stream import Sessions, open_model\n"
        f"sessions = Sessions(open_model({str(tmp_path / 'm')!r}).model)\n"
        f"number = sessions.load(Path({str(tmp_path / 's')!r}).read_bytes())\n"
        "for token in (5, 0, 1):\n"
        "    print(sessions.step([number], np.array([token])).tobytes().hex())\n"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    here = [sessions.step([number], np.array([token])).tobytes().hex() for token in (5, 0, 1)]
    assert there == here
    assert len((tmp_path / "s").read_bytes()) < 400


def test_saved_sessions_of_another_model_or_damaged_ones_are_refused() -> None:
    one, other = Sessions(exported("gru")), Sessions(exported("gru"), "another")
    data = one.save(one.open())
    with pytest.raises(MismatchError, match="belongs to model gru"):
        other.load(data)
    for wrong in (b"", b"nonsense", data[:-1], data[:-1] + b"x", data.replace(b'"format": 1', b'"format": 2')):
        with pytest.raises(FormatError):
            one.load(wrong)
    waits = Session(one.model.init_state(1), (2,), (3,), b"th").to_bytes(one.fingerprint)
    with pytest.raises(FormatError, match="text waits"):
        one.load(waits)
    with pytest.raises(FormatError, match="changed after saving"):
        one.load(waits.replace(b'"7468"', b'"7469"'))
    assert len(one) == 1


def test_misuse_of_sessions_is_told() -> None:
    sessions = Sessions(exported("rnn"))
    number = sessions.open()
    with pytest.raises(ShapeError, match="twice"):
        sessions.step([number, number], np.array([1, 2]))
    with pytest.raises(ShapeError, match="one token"):
        sessions.step([number], np.array([1, 2]))
    with pytest.raises(ConfigError, match="session 7 is not open"):
        sessions.step([7], np.array([1]))
    with pytest.raises(ShapeError, match="one row"):
        sessions.open(sessions.model.init_state(2))
    sessions.close(number)
    assert number not in sessions
    assert sessions.open() != number


def test_a_state_that_was_read_is_a_value() -> None:
    sessions = Sessions(exported("lstm"))
    number = sessions.open()
    before = sessions.state(number)
    kept = states.to_bytes(before)
    sessions.step([number], np.array([2]))
    assert states.to_bytes(before) == kept
    assert states.to_bytes(sessions.state(number)) != kept


def test_top_k_is_sorted_and_ties_go_to_the_lower_id() -> None:
    log_probs = np.log(np.array([[0.1, 0.3, 0.2, 0.3, 0.1], [0.2] * 5], np.float32))
    np.testing.assert_array_equal(top_k(log_probs, 3), [[1, 3, 2], [0, 1, 2]])
    np.testing.assert_array_equal(top_k(log_probs[0], 9), [1, 3, 2, 0, 4])
    np.testing.assert_array_equal(top_k(np.zeros(300, np.float32), 200), np.arange(200))
    np.testing.assert_array_equal(top_k(np.array([-np.inf, np.nan, -1], np.float32), 3), [2, 0, 1])
    with pytest.raises(ConfigError):
        top_k(log_probs, 0)


def test_surprise_is_in_bits() -> None:
    log_probs = np.log(np.array([[0.5, 0.25, 0.25]], np.float32))
    np.testing.assert_allclose(surprise(log_probs, np.array([1])), [2.0], rtol=1e-6)
