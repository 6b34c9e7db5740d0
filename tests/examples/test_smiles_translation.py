import math

import numpy as np
import pytest
import torch

from examples.smiles_translation import training
from examples.smiles_translation.pairs import (
    END,
    START,
    VOCABULARY,
    batches,
    decode,
    encode,
    nci_split,
    pair_tensors,
    randomize_smiles,
)
from examples.smiles_translation.training import (
    TranslationConfig,
    alignment_of,
    evaluate_translator,
    score_translations,
    train_translator,
    translate,
)
from molattn.chem import TOKENS, canonical_smiles, mutate_molecules, read_smiles, tokenize
from molattn.errors import InputError, UsageError

SHORT = ["CCO", "CC=O", "CN", "CC(=O)O", "C#N", "c1ccccc1", "CCS", "CCl"]
FEW = ["CCO", "CN", "CC=O", "C#N"]


def test_no_molecule_is_in_two_subsets_or_recreated_by_an_edit():
    split = nci_split(14)
    sides = [set(split.train), set(split.val), set(split.test)]
    assert all(sides)
    assert sum(map(len, sides)) == len(set.union(*sides)) == len(split.train + split.val + split.test)
    assert nci_split(14) == split
    assert nci_split(14, seed=1) != split
    held_out = sides[1] | sides[2]
    extra = mutate_molecules(split.train, 200, seed=0, max_length=14, exclude=held_out)
    assert not held_out & set(extra)


@pytest.mark.parametrize("smiles", [*SHORT, "C[C@@H](Cl)[O-]", "F/C=C\\F", "[13CH4]"])
def test_codes_spell_the_smiles_and_stop_at_the_end(smiles):
    codes = encode(smiles)
    assert [TOKENS[c] for c in codes] == list(tokenize(smiles))
    assert decode([*codes, END, *encode("CCC"), START]) == smiles
    assert decode([*codes, END, 0, 0]) == smiles
    assert decode(codes) == smiles
    assert START not in codes and END not in codes and 0 not in codes
    assert decode([START, *codes]) == f"?{smiles}"


def test_characters_without_a_token_are_refused():
    with pytest.raises(InputError, match="no token for 'ä'"):
        encode("Cä")


def test_targets_run_from_start_to_end():
    source, target = pair_tensors(["OCC", "C"], ["CCO", "C"])
    c = encode("C")[0]
    assert source[1].tolist() == [c, 0, 0]
    assert target[1].tolist() == [START, c, END, 0, 0]
    assert target[0].tolist() == [START, *encode("CCO"), END]


def test_batches_spell_the_molecules_of_both_lists_afresh_and_the_same_for_the_same_seed():
    smiles, extra = ["CC(=O)Oc1ccccc1C(=O)O"], ["CCO", "CCN"]
    drawn = batches(smiles, extra, batch_size=32, share=0.25, seed=0)
    sources, targets = set(), []
    for _ in range(16):
        source, target = next(drawn)
        assert len(source) == len(target) == 32
        for x, y in zip(source.tolist(), target.tolist(), strict=True):
            text, canonical = decode([*[c for c in x if c], END]), decode(y[1:])
            assert canonical_smiles(read_smiles(text)) == canonical
            sources.add(text)
            targets.append(canonical)
    assert set(targets) == {*smiles, *extra}
    assert len(sources) > 50
    assert 0.15 < targets.count(smiles[0]) / len(targets) < 0.35
    again = batches(smiles, extra, batch_size=32, share=0.25, seed=0)
    first = batches(smiles, extra, batch_size=32, share=0.25, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(next(again), next(first), strict=True))
    _, target = next(batches(smiles, [], batch_size=4, share=0.25, seed=0))
    assert {decode(row[1:]) for row in target.tolist()} == set(smiles)


def test_the_schedule_rises_and_falls():
    rates = [training._schedule(x) for x in np.linspace(0, 1, 101)]
    assert rates[0] > 0
    assert max(rates) == rates[4] == 1
    assert rates[:5] == sorted(rates[:5]) and rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[-1] == pytest.approx(0)


@pytest.mark.parametrize(
    ("name", "rate", "steps"), [("transformer", 5e-3, 200), ("bahdanau", 5e-3, 200), ("luong", 1e-2, 300)]
)
def test_a_small_training_learns_a_few_short_molecules_by_heart(name, rate, steps):
    config = TranslationConfig(model=name, width=64, batch_size=16, learning_rate=rate, steps=steps)
    records = []
    before = torch.random.get_rng_state()
    done = train_translator(FEW, FEW, config, record_every=50, on_record=records.append)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert records == done.history
    assert done.steps == steps and len(records) == steps // 50
    assert done.history[-1].train_loss < 0.3 * done.history[0].train_loss
    assert done.history[-1].val_loss < done.history[0].val_loss
    assert not done.model.training
    assert translate(done.model, randomize_smiles(FEW, 7)) == FEW
    for beam in (1, 3):
        scores = evaluate_translator(done.model, FEW, seed=5, beam=beam)
        assert (scores.count, scores.exact, scores.valid, scores.same) == (4, 1, 1, 1)
    weights = alignment_of(done.model, "OCC", "CCO")
    assert weights.shape == (4, 3)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_the_same_seed_trains_the_same_model():
    config = TranslationConfig(model="luong", width=8, batch_size=4, steps=3)
    a, b = (train_translator(SHORT, (), config) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(a.model.parameters(), b.model.parameters(), strict=True))
    assert math.isnan(a.history[-1].val_loss)
    c = train_translator(SHORT, (), TranslationConfig(model="luong", width=8, batch_size=4, steps=3, seed=1))
    assert not torch.equal(a.model.output.weight, c.model.output.weight)


def test_a_training_ends_when_its_minutes_are_over():
    config = TranslationConfig(width=16, batch_size=4, steps=10**9, minutes=0.01)
    done = train_translator(SHORT, (), config)
    assert 0.6 <= done.seconds < 10
    assert done.steps < 1000


@pytest.mark.parametrize("settings", [{"model": "oracle"}, {"steps": 0}, {"minutes": 0.0}])
def test_invalid_settings_of_a_training_are_refused(settings):
    with pytest.raises(UsageError):
        train_translator(SHORT, (), TranslationConfig(**settings))
    with pytest.raises(UsageError):
        train_translator([], (), TranslationConfig())


def test_scores_count_strings_molecules_and_what_is_the_same_molecule():
    #        exact, another spelling, another molecule, no molecule, nothing written
    written = ["CCO", "OC(=O)C", "CCC", "C1CC", ""]
    scores = score_translations(["CCO", "CC(=O)O", "CN", "C1CC1", "C"], written)
    assert scores == training.TranslationScores(5, 1 / 5, 3 / 5, 2 / 5)
    nothing = score_translations([], [])
    assert nothing.count == 0 and math.isnan(nothing.exact)


class Copier:
    """Writes its source again, token by token, then the end."""

    def init_state(self, source):
        return CopyState(torch.nn.functional.pad(source, (0, 1)), 0)

    def step(self, _, state):
        code = state.source[:, min(state.place, state.source.shape[1] - 1)]
        code = torch.where(code == 0, END, code)
        logits = torch.nn.functional.one_hot(code, VOCABULARY) * 50.0
        return logits, CopyState(state.source, state.place + 1)


class CopyState:
    def __init__(self, source, place):
        self.source, self.place = source, place

    def select(self, rows):
        return CopyState(self.source[rows], self.place)


@pytest.mark.parametrize("beam", [1, 3])
def test_translations_come_in_the_order_of_the_sources_and_are_cut_at_max_length(beam, monkeypatch):
    monkeypatch.setattr(training, "_DECODING_BATCH", 3)
    sources = ["CCCCCC", "C", "OCC", "Cl", "c1ccccc1", "CC", "N"]
    assert translate(Copier(), sources, beam=beam) == sources
    assert translate(Copier(), sources, beam=beam, max_length=2) == [decode(encode(s)[:2]) for s in sources]
    assert translate(Copier(), []) == []


def test_evaluation_leaves_out_long_targets_and_keeps_the_spellings_of_the_others():
    every = evaluate_translator(Copier(), SHORT, seed=3)
    short = evaluate_translator(Copier(), SHORT, seed=3, longest=3)
    assert (every.count, short.count) == (8, 5)
    assert every.valid == every.same == short.same == 1
    kept = [(s, t) for s, t in zip(randomize_smiles(SHORT, 3), SHORT, strict=True) if len(t) <= 3]
    assert short.exact == sum(s == t for s, t in kept) / 5
    assert 0 < every.exact < 1
