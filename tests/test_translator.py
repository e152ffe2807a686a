"""The door of encoder-decoders: every way of decoding works with it, and says what the network says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from ostinato.core.errors import ConfigError, DataError, MismatchError, ShapeError
from ostinato.core.model import Stepper
from ostinato.core.state import batch_size, from_bytes, map_leaves, same, stack, take, to_bytes
from ostinato.core.vocabulary import Ids
from ostinato.decode import Beam, Greedy, Hypothesis, Sample
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.nn.encoder_decoder_options import EncoderDecoderOptions
from ostinato.nn.translator import Translator
from test_encoder_decoder import ALL, FORMS, OUTPUTS, SOURCES, START, Examples, made

STOP = 1


def sources(seed: int = 0, rows: int = 5) -> list[Ids]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, SOURCES, generator.integers(1, 7)) for _ in range(rows)]


def decoded(strategy: Any, translator: Translator, rows: list[Ids], most: int = 6) -> list[list[Hypothesis]]:
    reading = translator.read(rows)
    found: list[list[Hypothesis]] = strategy.decode(reading, *reading.init_state(), stop=STOP, max_tokens=most)
    return found


def tokens_of(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[one.tokens for one in row] for row in found]


@pytest.mark.parametrize("form", ALL)
def test_a_step_says_what_the_network_says(form: str) -> None:
    network, batch = made(0, **ALL[form]), Examples()
    rows = [ids[:length].numpy() for ids, length in zip(batch.sources, batch.lengths.tolist(), strict=True)]
    reading = Translator(network).read(rows)
    assert isinstance(reading, Stepper)
    state, tokens = reading.init_state()
    assert tokens.tolist() == [START] * 4
    decoding = network.start(batch.sources, batch.lengths)
    chosen = np.arange(4)
    for order in ([0, 1, 2, 3], [2, 2, 0, 3, 3, 3], [5, 1, 0]):  # a beam that widens, and loses sources
        log_probs, state = reading.step(state, tokens)
        expected, decoding, _ = network.step(decoding, torch.from_numpy(tokens))
        np.testing.assert_allclose(log_probs, expected.detach().numpy(), atol=1e-6)
        assert log_probs.dtype == np.float32
        chosen, state = chosen[order], take(state, np.array(order))
        rows_taken = torch.tensor(order)
        decoding = map_leaves(lambda leaf, taken=rows_taken: leaf[taken], decoding)
        tokens = (tokens[order] + np.arange(len(order))) % OUTPUTS
        assert batch_size(state) == len(order)


@pytest.mark.parametrize("form", FORMS)
def test_a_state_is_a_value(form: str) -> None:
    reading = Translator(made(1, **FORMS[form])).read(sources())
    state, tokens = reading.init_state()
    before = to_bytes(state)
    first, after = reading.step(state, tokens)
    assert to_bytes(state) == before
    assert same(from_bytes(to_bytes(after), state), after)
    halves = stack([take(state, np.array([3, 4])), take(state, np.array([0]))])
    np.testing.assert_allclose(reading.step(halves, tokens[:3])[0], first[[3, 4, 0]], atol=1e-6)
    assert reading.step(take(state, np.zeros(0, np.int64)), tokens[:0])[0].shape == (0, OUTPUTS)


@pytest.mark.parametrize("form", ALL)
def test_greedy_is_a_beam_of_one_and_neither_sees_its_batch(form: str) -> None:
    translator, rows = Translator(made(2, **ALL[form])), sources(2)
    greedy = decoded(Greedy(), translator, rows)
    assert tokens_of(greedy) == tokens_of(decoded(Beam(width=1), translator, rows))
    wide = decoded(Beam(width=4, n_best=4, length_penalty=0.6), translator, rows)
    for row, source in enumerate(rows):
        assert tokens_of(decoded(Greedy(), translator, [source])) == tokens_of([greedy[row]])
        alone = decoded(Beam(width=4, n_best=4, length_penalty=0.6), translator, [source])
        assert tokens_of(alone) == tokens_of([wide[row]])
        assert [one.score for one in alone[0]] == pytest.approx([one.score for one in wide[row]], abs=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_strings(form: str, penalty: float) -> None:
    most, rows = 3, sources(3, rows=2)
    for seed in range(3):
        translator = Translator(made(seed, **FORMS[form]))
        found = decoded(Beam(width=OUTPUTS**most, n_best=5, length_penalty=penalty), translator, rows, most)
        for row, source in enumerate(rows):
            ranked = sorted(_every(translator, source, most), key=lambda one: -one[1] / _scale(one[2], penalty))
            assert [one.tokens for one in found[row]] == [tokens for tokens, _, _ in ranked[:5]]
            expected = [log_prob for _, log_prob, _ in ranked[:5]]
            assert [one.log_prob for one in found[row]] == pytest.approx(expected, abs=1e-5)


def _every(translator: Translator, source: Ids, most: int) -> list[tuple[tuple[int, ...], float, int]]:
    """Every string that stops, or is cut off after `most`: its tokens, log-prob and length with the stop."""
    words = [token for token in range(OUTPUTS) if token != STOP]
    said = [(*body, STOP) for size in range(most) for body in itertools.product(words, repeat=size)]
    said += list(itertools.product(words, repeat=most))
    scored = translator.score([source] * len(said), [np.array(target) for target in said])
    return [
        (tuple(token for token in target if token != STOP), float(log_probs.sum(dtype=np.float64)), len(target))
        for target, (log_probs, _) in zip(said, scored, strict=True)
    ]


def _scale(length: int, penalty: float) -> float:
    return float(((5 + length) / 6) ** penalty)


@pytest.mark.parametrize("form", ALL)
def test_what_was_said_is_scored_alike_afterwards_and_shows_its_attention(form: str) -> None:
    translator, rows = Translator(made(4, **ALL[form])), sources(4)
    for strategy in (Greedy(), Beam(width=3), Sample()):
        best = [row[0] for row in decoded(strategy, translator, rows)]
        said = [np.array([*one.tokens, *([STOP] if one.finished else [])], np.int64) for one in best]
        for one, target, source, (log_probs, weights) in zip(
            best, said, rows, translator.score(rows, said), strict=True
        ):
            assert log_probs.sum() == pytest.approx(one.log_prob, abs=1e-4)
            attends = ALL[form].get("attention") != "none"
            assert weights.shape == (len(target), len(source) if attends else 0)
            if attends:
                np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("form", ALL)
def test_bfloat16_decodes_with_nearly_the_same_numbers(form: str) -> None:
    torch.manual_seed(5)
    sizes: dict[str, Any] = {"embedding": 8, "hidden": 16, "kind": "gru"} | ALL[form]
    if ALL[form].get("attention_size"):
        sizes["attention_size"] = 8
    network = EncoderDecoder(SOURCES, OUTPUTS, EncoderDecoderOptions(**sizes))
    before, rows = {name: p.clone() for name, p in network.named_parameters()}, sources(5)
    wide, narrow = Translator(network), Translator(network, bf16=True)
    targets = [np.array([2, 3, 0, STOP])] * len(rows)
    for (a, _), (b, _) in zip(wide.score(rows, targets), narrow.score(rows, targets), strict=True):
        np.testing.assert_allclose(a, b, atol=0.05)
    found = decoded(Beam(width=3), narrow, rows)
    said = [np.array([*row[0].tokens, *([STOP] if row[0].finished else [])], np.int64) for row in found]
    for row, (log_probs, _) in zip(found, narrow.score(rows, said), strict=True):
        assert row[0].log_prob == pytest.approx(log_probs.sum(), abs=0.1)
    assert all(torch.equal(before[name], p) for name, p in network.named_parameters())


def test_dropout_is_off_and_the_mode_is_put_back() -> None:
    network = made(6, dropout=0.5).train()
    reading = Translator(network).read(sources())
    state, tokens = reading.init_state()
    assert (reading.step(state, tokens)[0] == reading.step(state, tokens)[0]).all()
    assert network.training


def test_memory_is_not_copied_while_all_sources_go_on() -> None:
    reading = Translator(made(7)).read(sources())
    state, _ = reading.init_state()
    decoding = reading._at(*take(state, np.repeat(np.arange(5), 3)))
    assert decoding.memory.memory.values is reading._decoding.memory.values  # type: ignore[union-attr]
    fewer = reading._at(*take(state, np.array([3, 1, 1])))
    again = reading._at(*take(state, np.array([1, 3, 3, 3])))
    assert fewer.memory.memory.values is again.memory.memory.values  # type: ignore[union-attr]


def test_what_does_not_belong_is_refused() -> None:
    translator = Translator(made(8))
    with pytest.raises(DataError, match="source 1 is empty"):
        translator.read([np.array([1]), np.zeros(0, np.int64)])
    with pytest.raises(MismatchError, match="sources reach from 1 to 9"):
        translator.read([np.array([1, 9])])
    with pytest.raises(MismatchError, match="targets reach from 6 to 6"):
        translator.score([np.array([1])], [np.array([6])])
    with pytest.raises(ShapeError, match="one target to each"):
        translator.score([np.array([1])], [])
    state, tokens = translator.read(sources()).init_state()
    other = translator.read(sources(rows=2))
    with pytest.raises(ShapeError, match="source 4, but 2 were read"):
        other.step(state, tokens)
    with pytest.raises(MismatchError, match="tokens reach from 8"):
        other.step(other.init_state()[0], np.array([8, 8]))
    with pytest.raises(ConfigError, match="float32"):
        Translator(made(8), bf16=True)
