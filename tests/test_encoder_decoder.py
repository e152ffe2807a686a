"""Encoder-decoders: against the papers word by word, and what may never change a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ostinato.core.errors import ConfigError, ShapeError
from ostinato.core.state import map_leaves
from ostinato.nn.cells import cells
from ostinato.nn.decoder import Decoder
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.nn.encoder_decoder_options import EncoderDecoderOptions
from ostinato.nn.heads.options import HeadOptions
from references import slow_decoder

SOURCES, OUTPUTS, START = 7, 6, 6
SIZES: dict[str, Any] = {"embedding": 5, "hidden": 4, "dropout": 0.0, "kind": "gru"}
FORMS: dict[str, dict[str, Any]] = {
    "bahdanau": {},
    "luong": {"attend": "after"},
    "input feeding": {"attend": "after", "input_feeding": True},
    "fixed vector": {"attention": "none"},
    "fixed vector at every step": {"attention": "none", "context": "every-step"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "scaled dot": {"attention": "scaled-dot", "attention_size": 3},
    "general": {"attention": "general", "attend": "after"},
    "dot": {"attention": "dot", "bidirectional": False},
    "deep": {"layers": 2, "encoder_layers": 2, "residual": True, "layer_norm": True},
    "deep input feeding": {"layers": 2, "attend": "after", "input_feeding": True, "kind": "lstm"},
    "not tied": {"tied": False},
    "adaptive": {"tied": False, "head": HeadOptions(kind="adaptive", cutoffs=(3,))},
    **{name: {"kind": name} for name in cells},
    "gated-delta, fed": {"kind": "gated-delta", "attend": "after", "input_feeding": True},
    "gated-delta, fixed": {"kind": "gated-delta", "attention": "none", "context": "every-step"},
}
ALL = FORMS | OTHERS


def made(seed: int = 0, **options: Any) -> EncoderDecoder:
    """In float64, with large weights, so that a small error is seen."""
    torch.manual_seed(seed)
    network = EncoderDecoder(SOURCES, OUTPUTS, EncoderDecoderOptions(**(SIZES | options))).double()
    for name, parameter in network.named_parameters():
        if not name.endswith(("log_rate", "rate_shift")):
            torch.nn.init.normal_(parameter, std=0.8)
    return network.eval()


class Examples:
    """Sources and targets of several lengths, padded with an id that is a word too."""

    def __init__(self, rows: int = 4, seed: int = 0):
        generator = torch.Generator().manual_seed(seed)
        self.lengths = torch.tensor([5, 1, 3, 4])[:rows]
        self.said = torch.tensor([2, 6, 1, 4])[:rows]
        self.sources = torch.randint(0, SOURCES, (rows, 5), generator=generator)
        self.targets = torch.randint(0, OUTPUTS, (rows, int(self.said.max())), generator=generator)

    @property
    def inputs(self) -> Tensor:
        return torch.cat([torch.full((len(self.targets), 1), START), self.targets[:, :-1]], dim=1)

    @property
    def weight(self) -> Tensor:
        return (torch.arange(self.targets.shape[1]) < self.said[:, None]).double()

    def loss(self, network: EncoderDecoder) -> Tensor:
        return network.loss(self.sources, self.lengths, self.inputs, self.targets, self.weight)

    def rows(self, order: list[int]) -> Examples:
        chosen = Examples()
        for name in ("lengths", "said", "sources", "targets"):
            setattr(chosen, name, getattr(self, name)[order])
        return chosen

    def padded(self, before: int, after: int, number: int) -> Examples:
        wide = self.rows(list(range(len(self.lengths))))
        wide.sources = torch.nn.functional.pad(self.sources, (0, before), value=number)
        wide.targets = torch.nn.functional.pad(self.targets, (0, after), value=number)
        return wide


@pytest.mark.parametrize("form", FORMS)
def test_the_papers_word_by_word_say_the_same(form: str) -> None:
    network, batch = made(1, **FORMS[form]), Examples()
    _, weights = network.score(batch.sources, batch.lengths, batch.inputs, batch.targets)
    total = torch.zeros((), dtype=torch.float64)
    for row, (length, said) in enumerate(zip(batch.lengths.tolist(), batch.said.tolist(), strict=True)):
        source, inputs = batch.sources[row, :length].tolist(), batch.inputs[row, :said].tolist()
        log_probs, looked = slow_decoder.say(network, source, inputs)
        total = total - log_probs[torch.arange(said), batch.targets[row, :said]].sum()
        if FORMS[form].get("attention") != "none":
            torch.testing.assert_close(weights[row, :said, :length], looked, rtol=0, atol=1e-12)
            assert (weights[row, :, length:] == 0).all()
    torch.testing.assert_close(batch.loss(network), total, rtol=0, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_is_that_of_the_papers_word_by_word(form: str) -> None:
    network, batch = made(2, **FORMS[form]).train(), Examples(rows=2)
    batch.loss(network).backward()
    ours = {
        name: parameter.grad.clone() for name, parameter in network.named_parameters() if parameter.grad is not None
    }
    network.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for row, (length, said) in enumerate(zip(batch.lengths.tolist(), batch.said.tolist(), strict=True)):
        log_probs, _ = slow_decoder.say(
            network, batch.sources[row, :length].tolist(), batch.inputs[row, :said].tolist()
        )
        total = total - log_probs[torch.arange(said), batch.targets[row, :said]].sum()
    total.backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        torch.testing.assert_close(ours[name], parameter.grad, rtol=0, atol=1e-10, msg=name)


@pytest.mark.parametrize("form", ALL)
def test_padding_order_and_size_of_a_batch_never_change_a_loss(form: str) -> None:
    network, batch = made(3, **ALL[form]), Examples()
    whole = batch.loss(network)
    singles = sum(batch.rows([row]).loss(network) for row in range(4))
    torch.testing.assert_close(singles, whole, rtol=1e-12, atol=0)
    torch.testing.assert_close(batch.rows([2, 0, 3, 1]).loss(network), whole, rtol=1e-12, atol=0)
    for number in (0, 5):
        torch.testing.assert_close(batch.padded(6, 5, number).loss(network), whole, rtol=1e-12, atol=0)
    for row in range(4):  # cut to its own size
        alone = batch.rows([row])
        alone.sources, alone.targets = alone.sources[:, : alone.lengths[0]], alone.targets[:, : alone.said[0]]
        torch.testing.assert_close(alone.loss(network), batch.rows([row]).loss(network), rtol=1e-12, atol=0)


@pytest.mark.parametrize("form", ALL)
def test_the_loss_is_the_sum_of_the_log_probs_of_steps(form: str) -> None:
    network, batch = made(4, **ALL[form]), Examples()
    picked, weights = network.score(batch.sources, batch.lengths, batch.inputs, batch.targets)
    decoding, stepped, looked = network.start(batch.sources, batch.lengths), [], []
    for t in range(batch.targets.shape[1]):
        log_probs, decoding, seen = network.step(decoding, batch.inputs[:, t])
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(4, dtype=torch.float64))
        stepped.append(log_probs.gather(1, batch.targets[:, t, None])[:, 0])
        looked.append(seen)
    torch.testing.assert_close(torch.stack(stepped, 1), picked, rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.stack(looked, 1), weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(-(picked * batch.weight).sum(), batch.loss(network), rtol=1e-12, atol=0)


@pytest.mark.parametrize("form", ALL)
def test_no_word_sees_what_is_said_after_it(form: str) -> None:
    network, batch = made(5, **ALL[form]), Examples()
    before, _ = network.score(batch.sources, batch.lengths, batch.inputs, batch.targets)
    changed = batch.inputs.clone()
    changed[:, 3:] = (changed[:, 3:] + 1) % OUTPUTS
    after, _ = network.score(batch.sources, batch.lengths, changed, batch.targets)
    assert (before[:, :3] == after[:, :3]).all()
    assert (before[:, 3:] != after[:, 3:]).any()


@pytest.mark.parametrize("form", ALL)
def test_every_word_of_the_source_and_of_the_past_counts(form: str) -> None:
    network, batch = made(6, **ALL[form]), Examples()
    before, _ = network.score(batch.sources, batch.lengths, batch.inputs, batch.targets)
    for place in range(5):
        other = batch.sources.clone()
        other[0, place] = (other[0, place] + 1) % SOURCES
        after, _ = network.score(other, batch.lengths, batch.inputs, batch.targets)
        assert (before[0] != after[0]).all()
    batch.lengths = torch.full((4,), 5)  # a source of one word has nothing to choose from
    before, _ = network.score(batch.sources, batch.lengths, batch.inputs, batch.targets)
    changed = batch.inputs.clone()
    changed[:, 1] = (changed[:, 1] + 1) % OUTPUTS
    after, _ = network.score(batch.sources, batch.lengths, changed, batch.targets)
    assert (before[:, 1:] != after[:, 1:]).all()


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_a_decoding_can_be_taken(form: str) -> None:
    network, batch, rows = made(7, **FORMS[form]), Examples(), torch.tensor([3, 0, 0, 2])
    _, decoding, _ = network.step(network.start(batch.sources, batch.lengths), batch.inputs[:, 0])
    expected, _, _ = network.step(decoding, batch.inputs[:, 1])
    taken = map_leaves(lambda leaf: leaf[rows], decoding)
    torch.testing.assert_close(network.step(taken, batch.inputs[rows, 1])[0], expected[rows])


@pytest.mark.parametrize("form", FORMS)
def test_smoothed_labels_are_a_mixture_with_all_words(form: str) -> None:
    network, batch, share = made(8, label_smoothing=0.2, **FORMS[form]), Examples(), 0.2
    plain = batch.loss(network)
    network.train()
    loss = batch.loss(network)
    loss.backward()
    ours = {
        name: parameter.grad.clone() for name, parameter in network.named_parameters() if parameter.grad is not None
    }
    network.zero_grad()
    features, _, _ = network.decoder.read(network.start(batch.sources, batch.lengths), batch.inputs)
    log_probs = network.decoder.log_probs(features)
    own = log_probs.gather(2, batch.targets[:, :, None])[:, :, 0]
    expected = -(batch.weight * ((1 - share) * own + share * log_probs.mean(2))).sum()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(plain, -(batch.weight * own).sum(), rtol=1e-12, atol=0)  # not in evaluation
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, rtol=0, atol=1e-10, msg=name)


def test_scheduled_sampling_reads_what_the_decoder_would_have_said() -> None:
    network, rows = made(9), 4000
    batch = Examples(rows=1).rows([0] * rows)
    decoding = network.start(batch.sources, batch.lengths)
    first, _, _ = network.step(network.start(batch.sources[:1], batch.lengths[:1]), batch.inputs[:1, 0])
    torch.manual_seed(0)
    mixed = network.decoder.mix(decoding, batch.inputs, 1.0)
    assert (mixed[:, 0] == START).all()
    seen = np.bincount(mixed[:, 1].numpy(), minlength=OUTPUTS) / rows
    np.testing.assert_allclose(seen, first[0].exp().detach().numpy(), atol=4 * (0.25 / rows) ** 0.5)
    half = network.decoder.mix(decoding, batch.inputs, 0.5)
    agree = 0.5 + 0.5 * first[0, batch.inputs[0, 1]].exp().item()
    assert float((half[:, 1] == batch.inputs[:, 1]).double().mean()) == pytest.approx(agree, abs=0.04)
    assert (network.decoder.mix(decoding, batch.inputs, 0.0) == batch.inputs).all()


def test_scheduled_sampling_draws_after_what_it_drew_before() -> None:
    """A decoder that all but surely says the word after the one it read: from the first draw on it follows itself."""
    network = made(10, attention="none", embedding=6, hidden=6)
    decoder = network.decoder

    def step(decoding: Any, tokens: Tensor) -> tuple[Tensor, Any, Tensor]:
        said = torch.full((len(tokens), OUTPUTS), -100.0)
        said[torch.arange(len(tokens)), (tokens + 1) % OUTPUTS] = 0
        return said, decoding, said

    decoder.step = step  # type: ignore[method-assign]
    inputs = torch.tensor([[START, 4, 4, 4, 4]])
    assert decoder.mix(None, inputs, 1.0).tolist() == [[6, 1, 2, 3, 4]]  # type: ignore[arg-type]


def test_training_with_scheduled_sampling_counts_the_given_targets() -> None:
    network, batch = made(11).train(), Examples()
    torch.manual_seed(3)
    loss = network.loss(batch.sources, batch.lengths, batch.inputs, batch.targets, batch.weight, sampling=0.7)
    torch.manual_seed(3)
    mixed = network.decoder.mix(network.start(batch.sources, batch.lengths), batch.inputs, 0.7)
    assert (mixed != batch.inputs).any()
    picked, _ = network.score(batch.sources, batch.lengths, mixed, batch.targets)
    torch.testing.assert_close(loss, -(picked * batch.weight).sum(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("form", ALL)
def test_bfloat16_products_give_nearly_the_same_loss_and_gradient(form: str) -> None:
    torch.manual_seed(12)
    network, batch = EncoderDecoder(SOURCES, OUTPUTS, EncoderDecoderOptions(**(SIZES | ALL[form]))), Examples()
    found = []
    for network.bf16 in (False, True):
        network.zero_grad()
        loss = batch.loss(network.train())
        loss.backward()
        gradients = [p.grad.flatten() for p in network.parameters() if p.grad is not None]
        found.append((float(loss.detach()), torch.cat(gradients)))
    (loss, gradient), (near, rough) = found
    assert near == pytest.approx(loss, rel=0.01)
    assert torch.nn.functional.cosine_similarity(gradient, rough, dim=0) > 0.995
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name


def test_dropout_is_off_in_evaluation_and_falls_on_every_form() -> None:
    for form in FORMS.values():
        network, batch = made(13, **(form | {"dropout": 0.5})), Examples()
        assert batch.loss(network) == batch.loss(network)
        assert batch.loss(network.train()) != batch.loss(network)


@pytest.mark.parametrize(("tied", "shared", "tables"), [(True, False, 2), (False, False, 3), (True, True, 1)])
def test_vectors_that_are_shared_are_counted_once(tied: bool, shared: bool, tables: int) -> None:
    network = EncoderDecoder(
        40, 40, EncoderDecoderOptions(**(SIZES | {"tied": tied, "shared": shared, "embedding": 4}))
    )
    assert sum(parameter.shape[0] in (40, 42) and parameter.dim() == 2 for parameter in network.parameters()) == tables
    assert shared == (network.encoder.embedding is network.decoder.embedding)


@pytest.mark.parametrize("form", ALL)
def test_made_again_from_its_options_and_weights_it_is_the_same(form: str) -> None:
    network, batch = made(14, **ALL[form]), Examples()
    again = EncoderDecoder(SOURCES, OUTPUTS, network.options).double().eval()
    again.load_state_dict(network.state_dict())
    assert batch.loss(again) == batch.loss(network)
    assert again.options == network.options


def test_attention_learns_to_turn_a_row_around() -> None:
    torch.manual_seed(0)
    options = EncoderDecoderOptions(kind="gru", embedding=12, hidden=16, dropout=0.0)
    network, generator = EncoderDecoder(6, 6, options), torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.03)

    def batch() -> tuple[Tensor, ...]:
        sources = torch.randint(0, 6, (48, 4), generator=generator)
        inputs = torch.cat([torch.full((48, 1), 6), sources.flip(1)[:, :-1]], dim=1)
        return sources, torch.full((48,), 4), inputs, sources.flip(1), torch.ones(48, 4)

    for _ in range(100):
        optimiser.zero_grad()
        (network.loss(*batch()) / (48 * 4)).backward()
        optimiser.step()
    with torch.no_grad():
        log_probs, _ = network.eval().score(*batch()[:4])
    assert log_probs.exp().mean().item() > 0.9


def test_options_that_do_not_fit_are_refused_with_the_reason() -> None:
    for given, reason in [
        ({"attention": "none", "attend": "after"}, "attend and input_feeding are for a decoder with attention"),
        ({"context": "every-step"}, "context is for attention none"),
        ({"attention": "dot", "attention_size": 3}, "attention_size does not apply to dot"),
        ({"input_feeding": True}, "input_feeding is for attend after"),
        ({"label_smoothing": 0.1, "head": HeadOptions(kind="nce")}, "label_smoothing needs the full softmax"),
    ]:
        with pytest.raises(ValueError, match=reason):
            EncoderDecoderOptions(**given)
    with pytest.raises(ConfigError, match="one vocabulary, got 5 source and 6 target"):
        EncoderDecoder(5, 6, EncoderDecoderOptions(shared=True))
    with pytest.raises(ConfigError, match="queries of 4 numbers with values of 8"):
        made(attention="dot")
    with pytest.raises(ConfigError, match="gated-delta keeps no vector"):
        made(kind="gated-delta", attention="none")


def test_an_empty_source_is_refused() -> None:
    network, batch = made(), Examples()
    with pytest.raises(ShapeError, match="lengths reach from 0 to 4"):
        network.start(batch.sources, batch.lengths - 1)


def test_a_decoder_reads_any_values_not_only_words() -> None:
    """As for captions: a grid of features, and one vector for all of it."""
    from ostinato.nn.decoder import Encoded

    torch.manual_seed(0)
    decoder = Decoder(OUTPUTS, 3, 2, EncoderDecoderOptions(**SIZES)).double()
    grid, summary = torch.randn(2, 4, 3).double(), torch.randn(2, 2).double()
    decoding = decoder.start(Encoded(grid, torch.ones(2, 4, dtype=torch.bool), summary))
    log_probs, _, weights = decoder.step(decoding, torch.full((2,), START))
    assert log_probs.shape == (2, OUTPUTS)
    torch.testing.assert_close(weights.sum(1), torch.ones(2, dtype=torch.float64))
