"""Networks and the loss: against torch.nn.functional, hand arithmetic and finite differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ostinato.core.errors import ConfigError
from ostinato.core.state import leaves
from ostinato.core.vocabulary import Vocabulary
from ostinato.nn.cells import ForgetGate, cells
from ostinato.nn.heads import HeadOptions, LinearHead
from ostinato.nn.lm import NeuralLM
from ostinato.nn.loss import ROWS, linear_cross_entropy
from ostinato.nn.networks import NPLM, RecurrentNetwork, networks
from ostinato.nn.options import KINDS, LSTMOptions, NPLMOptions, RecurrentOptions
from ostinato.runs import RunDir
from ostinato.tasks.language.load import make_neural
from ostinato.text.batch import Batch
from ostinato.train.monitor import probe

RECURRENT = [kind for kind in networks if kind != "nplm"]


def small(kind: str, **options: Any) -> Any:
    """Options of a small model of that kind without dropout."""
    given = {"dropout": 0.0} | ({} if kind == "nplm" else {"hidden": 6}) | options
    return KINDS[kind](**given)


@pytest.mark.parametrize("rows", [1, 7, ROWS + 3])
def test_the_fused_loss_agrees_with_cross_entropy(rows: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(rows, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 11, (rows,))
    ours = linear_cross_entropy(x, weight, bias, targets)
    other = torch.nn.functional.cross_entropy(x @ weight.T + bias, targets, reduction="sum")
    torch.testing.assert_close(ours, other, rtol=1e-12, atol=1e-9)
    for mine, theirs in zip(
        torch.autograd.grad(ours * 0.3, (x, weight, bias)),
        torch.autograd.grad(other * 0.3, (x, weight, bias)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def test_further_rows_of_a_tied_weight_take_no_part() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(4, 3), torch.randn(7, 3, requires_grad=True), torch.zeros(5)
    targets = torch.tensor([0, 4, 2, 2])
    ours = linear_cross_entropy(x, weight, bias, targets)
    torch.testing.assert_close(ours, linear_cross_entropy(x, weight[:5], bias, targets))
    (gradient,) = torch.autograd.grad(ours, weight)
    assert gradient[5:].abs().sum() == 0
    assert gradient[:5].abs().sum() > 0


def test_the_fused_loss_passes_gradcheck() -> None:
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (6, 3), (6,)))
    targets = torch.tensor([0, 5, 2, 2])
    assert torch.autograd.gradcheck(lambda *leaf: linear_cross_entropy(*leaf, targets), (x, weight, bias))


def test_bfloat16_products_change_the_loss_by_less_than_a_percent() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(300, 64), torch.randn(500, 64) / 8, torch.zeros(500)
    x.requires_grad_()
    weight.requires_grad_()
    targets = torch.randint(0, 500, (300,))
    exact, rough = (linear_cross_entropy(x, weight, bias, targets, bf16) for bf16 in (False, True))
    assert float((exact - rough).detach().abs() / exact.detach()) < 0.01
    (a,), (b,) = (torch.autograd.grad(loss, (weight,)) for loss in (exact, rough))
    assert float((a - b).norm() / a.norm()) < 0.02


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("embedding", [None, 3])
@pytest.mark.parametrize("tied", [True, False])
def test_a_recurrent_network_is_embedding_stack_and_softmax(kind: str, embedding: int | None, tied: bool) -> None:
    torch.manual_seed(0)
    network = networks[kind](7, small(kind, embedding=embedding, tied=tied)).double()
    assert isinstance(network, RecurrentNetwork)
    ids = torch.tensor([[7, 2, 3], [7, 0, 8]])
    cell = network.stack.cells[0]
    hidden, _ = cell.scan(cell.init_state(2), network.embedding.weight[ids])
    bias = torch.randn(7, dtype=torch.float64)
    assert isinstance(network.head, LinearHead)
    network.head.bias.data.copy_(bias)
    if tied:
        hidden = hidden @ network.project.weight.T if embedding else hidden
        logits = hidden @ network.embedding.weight[:7].T + bias
    else:
        assert network.head.weight.shape == (7, cell.output_size)
        logits = hidden @ network.head.weight.T + bias
    features, _ = network.features(network.init_state(2), ids)
    torch.testing.assert_close(network.log_probs(features), torch.log_softmax(logits, -1))


def test_with_skip_the_output_layer_reads_every_layer() -> None:
    torch.manual_seed(0)
    for tied in (True, False):
        network = networks["gru"](7, small("gru", layers=3, skip=True, tied=tied))
        assert isinstance(network, RecurrentNetwork)
        assert network.stack.output_size == 18
        features, _ = network.features(network.init_state(1), torch.tensor([[7, 2]]))
        assert features.shape[-1] == network.head.width == (6 if tied else 18)


@pytest.mark.parametrize("direct", [False, True])
def test_the_nplm_is_the_published_equation(direct: bool) -> None:
    """y = b + W x + U tanh(d + H x) over the last n-1 words, the start symbol where there are none."""
    torch.manual_seed(0)
    network = networks["nplm"](6, NPLMOptions(order=3, hidden=4, embedding=2, direct=direct, dropout=0)).double()
    assert isinstance(network, NPLM)
    assert isinstance(network.head, LinearHead)
    assert network.head.weight[:, 4:].abs().sum() == 0  # the direct connections begin at nothing
    torch.nn.init.normal_(network.head.weight)
    torch.nn.init.normal_(network.head.bias)
    start = 6
    ids = torch.tensor([[start, 2, 4]])
    features, state = network.features(network.init_state(1), ids)
    for place, window in enumerate(([start, start], [start, 2], [2, 4])):
        x = torch.cat([network.embedding.weight[word] for word in window])
        hidden = torch.tanh(network.hidden.bias + network.hidden.weight @ x)
        y = network.head.bias + network.head.weight[:, :4] @ hidden
        if direct:
            y = y + network.head.weight[:, 4:] @ x
        torch.testing.assert_close(network.log_probs(features)[0, place], torch.log_softmax(y, 0))
    assert state.window.tolist() == [[2, 4]]


MORE = {
    "deep": ("lstm", {"layers": 2, "residual": True, "layer_norm": True, "feed_forward": "swiglu", "tied": False}),
    "skip": ("gru", {"layers": 2, "skip": True, "biases": 1}),
    "zoneout": ("lstm-peephole", {"zoneout": 0.3}),
    "adaptive": ("gru", {"head": HeadOptions(kind="adaptive", cutoffs=(3, 6))}),
    "mixture": ("min-lstm", {"head": HeadOptions(kind="mixture", components=2)}),
    **{kind: (kind, {}) for kind in networks},
}


@pytest.mark.parametrize("name", MORE)
def test_padding_never_changes_the_loss_or_its_gradient(name: str) -> None:
    torch.manual_seed(0)
    kind, more = MORE[name]
    network = networks[kind](9, small(kind, **more)).double().eval()
    inputs, targets = torch.tensor([[9, 3, 4, 5]]), torch.tensor([[3, 4, 5, 1]])
    plain, _ = network.loss(network.init_state(1), inputs, targets, torch.ones(1, 4))
    padded = torch.tensor([[9, 3, 4, 5, 10, 10], [9, 2, 10, 10, 10, 10]])
    goals = torch.tensor([[3, 4, 5, 1, 1, 1], [2, 1, 1, 1, 1, 1]])
    weight = torch.tensor([[1.0, 1, 1, 1, 0, 0], [0.0, 0, 0, 0, 0, 0]])
    with_padding, _ = network.loss(network.init_state(2), padded, goals, weight)
    torch.testing.assert_close(with_padding, plain)
    mine = torch.autograd.grad(plain, list(network.parameters()), allow_unused=True)
    other = torch.autograd.grad(with_padding, list(network.parameters()), allow_unused=True)
    for a, b in zip(mine, other, strict=True):
        if a is not None and b is not None:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", MORE)
def test_teacher_forcing_scores_what_the_door_scores(name: str) -> None:
    """The training loss is minus the sum of the log-probs that `score` gives: labels are shifted by one, once."""
    torch.manual_seed(0)
    vocabulary = Vocabulary(["a", "b", "c", "d", "e", "f", "g"])
    kind, more = MORE[name]
    network = networks[kind](vocabulary.outputs, small(kind, **more))
    network.eval()
    inputs = np.array([[vocabulary.start, 2, 3, 4]])
    targets = np.array([[2, 3, 4, vocabulary.stop]])
    loss, _ = network.loss(
        network.init_state(1), torch.from_numpy(inputs), torch.from_numpy(targets), torch.ones(inputs.shape)
    )
    model = NeuralLM(network, vocabulary)
    log_probs, _ = model.score(model.init_state(1), inputs, targets)
    assert float(loss.detach()) == pytest.approx(-log_probs.sum(), abs=1e-5)


@pytest.mark.parametrize("kind", RECURRENT)
def test_the_forget_bias_option_reaches_every_layer(kind: str) -> None:
    """Kinds with a forget gate have the option, and only they."""
    assert hasattr(small(kind), "forget_bias") == issubclass(cells[kind], ForgetGate)
    if not issubclass(cells[kind], ForgetGate):
        return
    network = networks[kind](9, small(kind, layers=2, forget_bias=1.5))
    assert isinstance(network, RecurrentNetwork)
    for cell in network.stack.cells:
        assert isinstance(cell, ForgetGate)
        sign = -1 if kind == "lstm-coupled" else 1  # there it is the input gate's bias with the opposite sign
        assert [bias.tolist() for bias in cell.forget_biases()] == [[1.5 * sign] * 6]


def test_the_bias_of_an_lstm_is_zero_but_for_the_forget_gate() -> None:
    network = networks["lstm"](9, LSTMOptions(hidden=4, layers=2, forget_bias=1.5))
    assert isinstance(network, RecurrentNetwork)
    for cell in network.stack.cells:
        assert cell.from_input.bias.tolist() == [0] * 4 + [1.5] * 4 + [0] * 8


@pytest.mark.parametrize("kind", RECURRENT)
def test_two_biases_are_one_more_for_every_kind_that_has_the_option(kind: str) -> None:
    if "biases" not in small(kind).cell_options():
        return
    one, two = (networks[kind](9, small(kind, biases=biases)) for biases in (1, 2))
    more = sum(p.numel() for p in two.parameters()) - sum(p.numel() for p in one.parameters())
    assert more > 0
    assert more % 6 == 0


@pytest.mark.parametrize("kind", RECURRENT)
def test_bfloat16_products_in_training_change_a_loss_by_little(kind: str) -> None:
    torch.manual_seed(0)
    network = networks[kind](50, small(kind, hidden=32, layers=2))
    inputs, targets = torch.randint(0, 50, (4, 20)), torch.randint(0, 50, (4, 20))
    found = []
    for bf16 in (False, True):
        network.bf16 = bf16
        loss, state = network.loss(network.init_state(4), inputs, targets, torch.ones(4, 20))
        assert all(leaf.dtype == torch.float32 for leaf in leaves(state))
        found.append(float(loss.detach()))
    assert found[1] == pytest.approx(found[0], rel=0.01)
    assert found[0] != found[1]


@pytest.mark.parametrize("kind", RECURRENT)
def test_every_noise_of_training_is_off_in_evaluation(kind: str) -> None:
    torch.manual_seed(0)
    noise = {"dropout": 0.3, "variational": True, "embedding_dropout": 0.2}
    noise |= {name: 0.3 for name in ("recurrent_dropout", "weight_dropout") if hasattr(small(kind), name)}
    noisy, plain = networks[kind](9, small(kind, **noise)), networks[kind](9, small(kind))
    plain.load_state_dict(noisy.state_dict())
    ids = torch.randint(0, 9, (2, 7))
    (one, _), (other, _) = (network.eval().features(network.init_state(2), ids) for network in (noisy, plain))
    torch.testing.assert_close(one, other)
    noisy.train()
    (one, _), (other, _) = (noisy.features(noisy.init_state(2), ids) for _ in range(2))
    assert not torch.allclose(one, other)


def test_a_bidirectional_language_model_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="must predict"):
        networks["gru"](9, small("gru", bidirectional=True))


def test_a_network_made_from_its_own_options_is_the_same_without_the_counts() -> None:
    """What an output layer decides by the counts of the training text is in the options that are saved."""
    counts = torch.tensor([500, 300, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1])
    options = small("gru", head=HeadOptions(kind="adaptive"))
    network = networks["gru"](12, options, counts)
    assert isinstance(network.options, RecurrentOptions)
    assert options.head.cutoffs is None
    assert network.options.head.cutoffs
    again = networks["gru"](12, network.options)
    again.load_state_dict(network.state_dict())
    ids = torch.randint(0, 12, (1, 5))
    one, other = (net.eval().features(net.init_state(1), ids)[0] for net in (network, again))
    torch.testing.assert_close(network.log_probs(one), again.log_probs(other))


def test_a_tied_matrix_is_saved_once() -> None:
    network = networks["lstm"](9, small("lstm"))
    assert sorted(network.state_dict()) == [
        "embedding.weight",
        "head.bias",
        "stack.layers.0.from_hidden.weight",
        "stack.layers.0.from_input.bias",
        "stack.layers.0.from_input.weight",
    ]


@pytest.mark.parametrize("kind", ["lstm", "nplm"])
def test_a_model_saved_before_output_layers_were_parts_still_loads(kind: str, tmp_path: Path) -> None:
    """It has its output matrix under `output`, the bias under `output_bias`, and no options of a head."""
    vocabulary = Vocabulary(["a", "b"])
    network = networks[kind](4, small(kind, **({} if kind == "nplm" else {"tied": False})))
    arrays = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    arrays["output"], arrays["output_bias"] = arrays.pop("head.weight"), arrays.pop("head.bias")
    options = {"order": 5, "hidden": 128} if kind == "nplm" else {"hidden": 6, "layers": 1, "tied": False}
    model: Any = make_neural(RunDir(tmp_path), kind, arrays, {"options": options}, vocabulary)
    for name, tensor in network.state_dict().items():
        assert model.network.state_dict()[name].equal(tensor)


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_probe_looks_into_every_kind(kind: str) -> None:
    """A gradient through time for every layer whose outputs are its state; gates of every layer."""
    torch.manual_seed(0)
    network = networks[kind](9, small(kind, layers=2, residual=True, skip=True))
    ids = np.random.default_rng(0).integers(0, 9, (3, 8))
    seen = probe(network, Batch(ids, ids, np.ones(ids.shape, np.float32), np.ones(3, bool)))
    assert [sorted(gates) for gates in seen["activations"]] == [sorted(seen["activations"][0])] * 2
    assert all(
        0 <= gate[share] <= 1 for gates in seen["activations"] for gate in gates.values() for share in ("low", "high")
    )
    assert [len(norms) for norms in seen["through_time"]] == ([] if kind == "gated-delta" else [8, 8])
    assert all(norm > 0 for norms in seen["through_time"] for norm in norms)
