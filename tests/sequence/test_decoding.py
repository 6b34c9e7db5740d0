"""Greedy and beam search, with models whose sequences can be enumerated and with the real ones."""

import inspect
import itertools
import math
from dataclasses import dataclass

import pytest
import torch

from molattn.sequence import DecodingState, StepDecoder, Transformer, beam_search, greedy_search
from tests.assertions import assert_close
from tests.sequence.models import ALL, F64, SOURCE, make

START, END = 1, 2


@dataclass(frozen=True)
class Prefix:
    """The sources and the target tokens so far."""

    source: torch.Tensor
    tokens: torch.Tensor

    def select(self, rows):
        return Prefix(self.source[rows], self.tokens[rows])


class Table:
    """A model with a table of probabilities by the target tokens so far: {(3,): {4: 0.6, 2: 0.4}}."""

    def __init__(self, table, vocab=6):
        self.table, self.vocab = table, vocab

    def init_state(self, source):
        return Prefix(source, source.new_empty(len(source), 0))

    def step(self, tokens, state):
        state = Prefix(state.source, torch.cat([state.tokens, tokens[:, None]], dim=-1))
        p = torch.full((len(tokens), self.vocab), 1e-9, dtype=F64)
        for row, prefix in zip(p, state.tokens.tolist(), strict=True):
            for token, probability in self.table.get(tuple(prefix[1:]), {END: 1.0}).items():
                row[token] = probability
        return p.log(), state


class Uncached:
    """A model that recomputes everything at each step: a cache must give the same result."""

    def __init__(self, model):
        self.model = model

    def init_state(self, source):
        return Prefix(source, source.new_empty(len(source), 0))

    def step(self, tokens, state):
        state = Prefix(state.source, torch.cat([state.tokens, tokens[:, None]], dim=-1))
        return self.model(state.source, state.tokens)[:, -1], state


# The most probable first token is a dead end: 3 then any token is at most 0.6 * 0.4, and 4, 5, END is 0.4 * 0.9.
GARDEN_PATH = Table({(): {3: 0.6, 4: 0.4}, (3,): {3: 0.4, 4: 0.3, 5: 0.3}, (4,): {5: 0.9, END: 0.1}})
ONE = torch.ones(1, 1, dtype=torch.long)


def test_greedy_takes_the_most_probable_token_each_time():
    decoded = greedy_search(GARDEN_PATH, ONE, start_token=START, end_token=END, max_length=5)
    assert decoded.tokens.tolist() == [[3, 3, END]]
    assert math.isclose(decoded.scores.item(), math.log(0.6 * 0.4), abs_tol=1e-7)


def test_a_beam_finds_a_better_sequence_than_greedy():
    decoded = beam_search(
        GARDEN_PATH, ONE, beam_size=2, start_token=START, end_token=END, max_length=5, length_penalty=0.0
    )
    assert decoded.tokens[0, 0].tolist() == [4, 5, END]
    assert math.isclose(decoded.scores[0, 0].item(), math.log(0.4 * 0.9), abs_tol=1e-7)
    assert (
        decoded.scores[0, 0] > greedy_search(GARDEN_PATH, ONE, start_token=START, end_token=END, max_length=5).scores[0]
    )


def test_length_normalisation_lets_a_longer_sequence_win():
    table = Table(
        {
            (): {END: 0.4, 3: 0.35, 4: 0.25},
            (3,): {3: 0.9, END: 0.1},
            (3, 3): {END: 1.0},
            (4,): {3: 0.3, 4: 0.3, 5: 0.4},
        }
    )
    settings = {"beam_size": 2, "start_token": START, "end_token": END, "max_length": 4}
    by_probability = beam_search(table, ONE, length_penalty=0.0, **settings)
    by_mean = beam_search(table, ONE, length_penalty=1.0, **settings)
    assert by_probability.tokens[0, 0].tolist() == [END, 0, 0]
    assert by_mean.tokens[0, 0].tolist() == [3, 3, END]
    assert math.isclose(by_mean.scores[0, 0].item(), math.log(0.35 * 0.9) / 3, abs_tol=1e-7)
    assert math.isclose(by_mean.scores[0, 1].item(), math.log(0.25 * 0.4) / 3, abs_tol=1e-7)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_sequences(length_penalty):
    torch.manual_seed(0)
    model, longest, tokens = make("transformer", vocab=5), 3, (1, 3, 4)
    source = SOURCE[:2]
    scores = []  # of all 13 sequences with an end; the beam holds every extension of every partial sequence
    for n in range(longest):
        for prefix in itertools.product(tokens, repeat=n):
            target = torch.tensor([[START, *prefix, END]] * 2)
            log_p = model(source, target[:, :-1]).log_softmax(-1).gather(2, target[:, 1:, None])[..., 0].sum(-1)
            scores.append((log_p / (n + 1) ** length_penalty, [*prefix, END]))
    decoded = beam_search(
        model, source, beam_size=36, start_token=START, end_token=END, max_length=longest, length_penalty=length_penalty
    )
    for i in range(2):
        ranked = sorted(scores, key=lambda found: -found[0][i].item())
        for j, (score, sequence) in enumerate(ranked):
            assert_close(decoded.scores[i, j], score[i], tol=1e-10)
            assert decoded.tokens[i, j].tolist() == sequence + [0] * (longest - len(sequence))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_size_of_1_is_greedy_search(name, seed):
    model = make(name, seed)
    settings = {"start_token": START, "end_token": END, "max_length": 9}
    one, beam = (
        greedy_search(model, SOURCE, **settings),
        beam_search(model, SOURCE, beam_size=1, length_penalty=0.0, **settings),
    )
    assert torch.equal(beam.tokens[:, 0], one.tokens)
    assert_close(beam.scores[:, 0], one.scores)


class Rounded:
    """A model whose logits are small integers, of which many are equal."""

    def __init__(self, vocab, seed):
        self.logits = torch.randint(3, (vocab, vocab), generator=torch.Generator().manual_seed(seed)).float()

    def init_state(self, source):
        return Prefix(source, source)

    def step(self, tokens, state):
        return self.logits[tokens], state


@pytest.mark.parametrize("vocab", [6, 300])
def test_a_beam_size_of_1_is_greedy_search_where_tokens_are_equally_probable(vocab):
    settings = {"start_token": START, "end_token": END, "max_length": 6}
    for seed in range(20):
        model = Rounded(vocab, seed)
        one = greedy_search(model, SOURCE, **settings)
        beam = beam_search(model, SOURCE, beam_size=1, length_penalty=0.0, **settings)
        assert torch.equal(beam.tokens[:, 0], one.tokens)


def test_equally_probable_sequences_are_in_the_order_of_the_vocabulary():
    flat = Table({prefix: dict.fromkeys(range(2, 6), 0.25) for prefix in [(), *((t,) for t in range(3, 6))]})
    decoded = beam_search(flat, ONE, beam_size=4, start_token=START, end_token=END, max_length=2, length_penalty=0.0)
    assert decoded.tokens[0].tolist() == [[END, 0], [3, END], [3, 3], [3, 4]]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("beam", [1, 3])
def test_cached_decoding_equals_uncached(name, beam):
    model = make(name)
    settings = {"beam_size": beam, "start_token": START, "end_token": END, "max_length": 12}
    cached, uncached = (beam_search(m, SOURCE, **settings) for m in (model, Uncached(model)))
    assert torch.equal(cached.tokens, uncached.tokens)
    assert_close(cached.scores, uncached.scores)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("dtype", "tol"), [(torch.float32, 1e-6), (F64, 1e-12)])
def test_cached_log_probabilities_equal_uncached(name, dtype, tol):
    model = make(name).to(dtype)
    cached, uncached = model.init_state(SOURCE), Uncached(model).init_state(SOURCE)
    for tokens in torch.randint(1, 8, (12, len(SOURCE))):
        a, cached = model.step(tokens, cached)
        b, uncached = Uncached(model).step(tokens, uncached)
        assert_close(a.log_softmax(-1), b.log_softmax(-1), tol)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("beam", [None, 3])
def test_a_batch_of_different_lengths_equals_its_sequences_one_by_one(name, beam):
    model = make(name)

    def decode(source):
        if beam is None:
            return greedy_search(model, source, start_token=START, end_token=END, max_length=7)
        return beam_search(model, source, beam_size=beam, start_token=START, end_token=END, max_length=7)

    together = decode(SOURCE)
    for i, length in enumerate((5, 3, 1)):
        alone = decode(SOURCE[i : i + 1, :length])
        width = alone.tokens.shape[-1]
        assert torch.equal(alone.tokens[0], together.tokens[i, ..., :width])
        assert together.tokens[i, ..., width:].eq(0).all()
        assert_close(alone.scores[0], together.scores[i])


@pytest.mark.parametrize("name", ALL)
def test_scores_are_the_log_probabilities_of_the_tokens(name):
    model = make(name)
    decoded = beam_search(model, SOURCE, beam_size=3, start_token=START, end_token=END, max_length=6)
    for i, j in itertools.product(range(3), range(3)):
        tokens = decoded.tokens[i, j]
        tokens = tokens[tokens != 0]
        target = torch.cat([torch.tensor([START]), tokens])[None]
        log_p = model(SOURCE[i : i + 1], target[:, :-1])[0].log_softmax(-1)
        assert_close(decoded.scores[i, j], log_p.gather(1, tokens[:, None]).sum() / len(tokens))
        assert (tokens[:-1] != END).all()


def test_a_sequence_with_an_end_comes_before_one_without():
    table = Table({(): {3: 0.9, END: 0.1}, (3,): {3: 0.9, END: 0.1}, (3, 3): {3: 1.0}})
    decoded = beam_search(table, ONE, beam_size=2, start_token=START, end_token=END, max_length=2, length_penalty=0.0)
    assert decoded.tokens[0].tolist() == [[END, 0], [3, END]]
    decoded = beam_search(table, ONE, beam_size=4, start_token=START, end_token=END, max_length=2, length_penalty=0.0)
    assert decoded.tokens[0, :3].tolist() == [[END, 0], [3, END], decoded.tokens[0, 2].tolist()]
    assert decoded.scores[0].diff().le(0)[0].item()


def test_missing_sequences_of_a_beam_are_padding():
    only_end = Table({}, vocab=3)
    decoded = beam_search(only_end, ONE, beam_size=3, start_token=START, end_token=END, max_length=1)
    assert decoded.tokens[0, 0].tolist() == [END]
    assert decoded.scores[0, 2].item() == -math.inf and decoded.tokens[0, 2].tolist() == [0]


def test_padding_is_never_predicted():
    decoded = greedy_search(Table({(): {0: 0.9, 3: 0.1}}), ONE, start_token=START, end_token=END, max_length=3)
    assert decoded.tokens.tolist() == [[3, END]]


@pytest.mark.parametrize("name", ALL)
def test_an_empty_batch_decodes_to_nothing(name):
    model = make(name)
    empty = SOURCE[:0]
    assert greedy_search(model, empty, start_token=START, end_token=END, max_length=3).tokens.shape[0] == 0
    assert beam_search(model, empty, beam_size=2, start_token=START, end_token=END, max_length=3).scores.shape == (
        0,
        2,
    )


def test_invalid_arguments_raise():
    with pytest.raises(ValueError, match="token 0 is padding"):
        greedy_search(GARDEN_PATH, ONE, start_token=0, end_token=END, max_length=3)
    with pytest.raises(ValueError, match="max_length"):
        greedy_search(GARDEN_PATH, ONE, start_token=START, end_token=END, max_length=0)
    with pytest.raises(ValueError, match="beam_size must be at least 1"):
        beam_search(GARDEN_PATH, ONE, beam_size=0, start_token=START, end_token=END, max_length=3)
    greedy, beam = inspect.unwrap(greedy_search), inspect.unwrap(beam_search)  # without the check of types
    settings = {"start_token": START, "end_token": END, "max_length": 3}
    for end in (-1, 6):
        with pytest.raises(ValueError, match=f"the end token {end} is not in the vocabulary of 6 tokens"):
            greedy(GARDEN_PATH, ONE, **{**settings, "end_token": end})
        with pytest.raises(ValueError, match=f"the end token {end} is not in the vocabulary of 6 tokens"):
            beam(GARDEN_PATH, ONE, beam_size=2, **{**settings, "end_token": end})
    with pytest.raises(TypeError, match=r"max_length is an integer, not 2\.5"):
        greedy(GARDEN_PATH, ONE, **{**settings, "max_length": 2.5})
    with pytest.raises(TypeError, match=r"beam_size is an integer, not 2\.0"):
        beam(GARDEN_PATH, ONE, beam_size=2.0, **settings)
    for name, token in (("start_token", 1.0), ("end_token", 2.5)):
        with pytest.raises(TypeError, match=f"{name} is an integer, not {token}"):
            greedy(GARDEN_PATH, ONE, **{**settings, name: token})
    with pytest.raises(ValueError, match=r"length_penalty 2000\.0 is too large for 3 tokens: it overflows"):
        beam(GARDEN_PATH, ONE, beam_size=2, length_penalty=2000.0, **settings)
    with pytest.raises(ValueError, match="length_penalty is a finite number, not nan"):
        beam(GARDEN_PATH, ONE, beam_size=2, length_penalty=math.nan, **settings)


@pytest.mark.parametrize("name", ALL)
def test_models_and_states_implement_the_protocols(name):
    model = make(name)
    assert isinstance(model, StepDecoder)
    assert isinstance(model.init_state(SOURCE), DecodingState)


def test_decoding_keeps_the_training_mode_and_computes_no_gradients():
    model = Transformer(10, 8, 8, 2, num_layers=1).train()
    assert not greedy_search(model, SOURCE, start_token=START, end_token=END, max_length=3).scores.requires_grad
    assert model.training


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_scores_of_a_model_of_sixteen_bits_do_not_saturate(search):
    class Coin:
        """Two tokens of the same probability, at every step."""

        def init_state(self, source):
            return Prefix(source, source)

        def step(self, tokens, state):
            return torch.tensor([[-1e4, 0.0, 0.0]], dtype=torch.bfloat16).repeat(len(tokens), 1), state

    source, length = torch.ones(2, 6, dtype=torch.long), 400
    if search == "greedy":
        found = greedy_search(Coin(), source, start_token=1, end_token=2, max_length=length)
        assert_close(found.scores, torch.full((2,), -length * math.log(2)), tol=1e-3)
    else:
        found = beam_search(Coin(), source, start_token=1, end_token=2, max_length=length, beam_size=2)
        lengths = (found.tokens != 0).sum(-1)
        assert_close(found.scores, -lengths * math.log(2) / lengths, tol=1e-3)
