"""Networks and the loss: against torch.nn.functional, hand arithmetic and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.core.vocabulary import Vocabulary
from ostinato.nn.lm import NeuralLM
from ostinato.nn.loss import ROWS, linear_cross_entropy
from ostinato.nn.networks import NPLM, RecurrentNetwork, networks
from ostinato.nn.options import ElmanOptions, GRUOptions, LSTMOptions, NPLMOptions

OPTIONS = {"rnn": ElmanOptions, "lstm": LSTMOptions, "gru": GRUOptions}


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


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("embedding", [None, 3])
@pytest.mark.parametrize("tied", [True, False])
def test_a_recurrent_network_is_embedding_stack_and_softmax(kind: str, embedding: int | None, tied: bool) -> None:
    torch.manual_seed(0)
    network = networks[kind](7, OPTIONS[kind](hidden=5, embedding=embedding, tied=tied, dropout=0)).double()
    assert isinstance(network, RecurrentNetwork)
    ids = torch.tensor([[7, 2, 3], [7, 0, 8]])
    cell = network.stack.cells[0]
    hidden, _ = cell.scan(cell.init_state(2), network.embedding.weight[ids])
    if tied:
        hidden = hidden @ network.project.weight.T if embedding else hidden
        logits = hidden @ network.embedding.weight[:7].T + network.output_bias
    else:
        logits = hidden @ network.output.T + network.output_bias
    features, _ = network.features(network.init_state(2), ids)
    torch.testing.assert_close(network.log_probs(features), torch.log_softmax(logits, -1))


@pytest.mark.parametrize("direct", [False, True])
def test_the_nplm_is_the_published_equation(direct: bool) -> None:
    """y = b + W x + U tanh(d + H x) over the last n-1 words, the start symbol where there are none."""
    torch.manual_seed(0)
    network = networks["nplm"](6, NPLMOptions(order=3, hidden=4, embedding=2, direct=direct, dropout=0)).double()
    assert isinstance(network, NPLM)
    torch.nn.init.normal_(network.output)
    start = 6
    ids = torch.tensor([[start, 2, 4]])
    features, state = network.features(network.init_state(1), ids)
    for place, window in enumerate(([start, start], [start, 2], [2, 4])):
        x = torch.cat([network.embedding.weight[word] for word in window])
        hidden = torch.tanh(network.hidden.bias + network.hidden.weight @ x)
        y = network.output_bias + network.output[:, :4] @ hidden
        if direct:
            y = y + network.output[:, 4:] @ x
        torch.testing.assert_close(network.log_probs(features)[0, place], torch.log_softmax(y, 0))
    assert state.window.tolist() == [[2, 4]]


@pytest.mark.parametrize("kind", list(networks))
def test_padding_never_changes_the_loss_or_its_gradient(kind: str) -> None:
    torch.manual_seed(0)
    options = NPLMOptions(dropout=0) if kind == "nplm" else OPTIONS[kind](hidden=6, dropout=0)
    network = networks[kind](9, options).double()
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


@pytest.mark.parametrize("kind", list(networks))
def test_teacher_forcing_scores_what_the_door_scores(kind: str) -> None:
    """The training loss is minus the sum of the log-probs that `score` gives: labels are shifted by one, once."""
    torch.manual_seed(0)
    vocabulary = Vocabulary(["a", "b", "c", "d"])
    options = NPLMOptions() if kind == "nplm" else OPTIONS[kind](hidden=6)
    network = networks[kind](vocabulary.outputs, options)
    network.eval()
    inputs = np.array([[vocabulary.start, 2, 3, 4]])
    targets = np.array([[2, 3, 4, vocabulary.stop]])
    loss, _ = network.loss(
        network.init_state(1), torch.from_numpy(inputs), torch.from_numpy(targets), torch.ones(inputs.shape)
    )
    model = NeuralLM(network, vocabulary)
    log_probs, _ = model.score(model.init_state(1), inputs, targets)
    assert float(loss.detach()) == pytest.approx(-log_probs.sum(), abs=1e-5)


def test_the_forget_bias_option_reaches_every_layer() -> None:
    network = networks["lstm"](9, LSTMOptions(hidden=4, layers=2, forget_bias=1.5))
    assert isinstance(network, RecurrentNetwork)
    for cell in network.stack.cells:
        assert cell.from_input.bias.tolist() == [0] * 4 + [1.5] * 4 + [0] * 8
