"""Matched pairs and measured effects, against pairs found without an index."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from rdkit.Chem import rdMMPA

from molattn.chem import Transform, canonical_smiles, changed_atoms, matched_pairs, measured_effects, read_smiles
from molattn.chem.pairs import DUMMY, HYDROGEN, MAX_SUBSTITUENT
from tests.molecules import esol


def pieces(smiles: str) -> set[tuple[str, str]]:
    """Context and substituent of each cut, with those for hydrogens: without the limits of sizes."""
    mol = read_smiles(smiles)
    cuts = [text.split(".") for _, text in rdMMPA.FragmentMol(mol, maxCuts=1, resultsAsMols=False)]
    return {pair for first, second in cuts for pair in ((first, second), (second, first))}


def size(fragment: str) -> int:
    return read_smiles(fragment.replace(DUMMY, "[*]")).GetNumAtoms() - 1


def test_pairs_are_those_of_every_two_molecules_compared() -> None:
    smiles = list(dict.fromkeys(canonical_smiles(read_smiles(s)) for s in esol(60)[0] if "." not in s))
    cut = [pieces(s) for s in smiles]
    expected = set()
    for i, j in combinations(range(len(smiles)), 2):
        for a, b in ((i, j), (j, i)):
            for context, substituent in cut[b]:
                n = size(context)
                if size(substituent) > min(MAX_SUBSTITUENT, n):
                    continue
                other = {s for c, s in cut[a] if c == context and size(s) <= min(MAX_SUBSTITUENT, n)}
                whole = canonical_smiles(read_smiles(context.replace(DUMMY, "[H]")))
                if other - {substituent} or whole == smiles[a]:
                    expected.add((i, j))
    found = matched_pairs(smiles)
    assert {(pair.first, pair.second) for pair in found} == expected
    assert len(found) == len(expected) > 10


def test_the_smallest_replacement_of_a_pair_counts() -> None:
    ((_, _, transform),) = matched_pairs(["CCCc1ccccc1", "CCCCc1ccccc1"])
    assert transform == Transform(HYDROGEN, "C[*:1]", "C")


def test_molecules_that_cannot_be_in_a_pair_change_no_index() -> None:
    smiles = ["C1CC", "c1ccccc1", "C1=CC=CC=C1", "[Na+].[Cl-]", "Oc1ccccc1"]
    assert [(p.first, p.second) for p in matched_pairs(smiles)] == [(1, 4)]
    assert matched_pairs([]) == []


def test_effects_of_the_two_directions_are_opposite() -> None:
    smiles, y = esol(200)
    values = np.array(y, dtype=float)
    values[3] = np.nan
    pairs = matched_pairs(smiles)
    effects = measured_effects(pairs, values)
    for transform, effect in effects.items():
        back = effects[transform.reversed]
        assert (back.count, back.mean) == pytest.approx((effect.count, -effect.mean))
        assert back.std == (None if effect.count == 1 else pytest.approx(effect.std))
    usable = [p for p in pairs if 3 not in (p.first, p.second)]
    assert sum(effect.count for effect in effects.values()) == 2 * len(usable)
    transform = usable[0].transform
    changes = [
        (values[p.second] - values[p.first]) * (1 if p.transform == transform else -1)
        for p in usable
        if transform in (p.transform, p.transform.reversed)
    ]
    assert effects[transform].mean == pytest.approx(np.mean(changes))


def test_a_series_is_read_by_position_whatever_its_labels() -> None:
    smiles, values = ["c1ccccc1OC", "Cc1ccccc1OC", "Oc1ccccc1OC", "Clc1ccccc1OC"], [0.5, -1.0, 4.0, 2.0]
    pairs = matched_pairs(smiles)
    for labels in ([3, 2, 1, 0], ["d", "a", "c", "b"], [10, 11, 12, 13]):
        column = pd.Series(smiles, index=labels)
        assert matched_pairs(column) == pairs
        assert changed_atoms(column, pairs) == changed_atoms(smiles, pairs)
        assert measured_effects(pairs, pd.Series(values, index=labels)) == measured_effects(pairs, np.array(values))
