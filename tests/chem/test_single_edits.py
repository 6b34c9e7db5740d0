"""Small edits of a molecule, and the atoms in which matched pairs differ."""

from typing import Any

import pytest
from rdkit import Chem

from molattn.chem import canonical_smiles, changed_atoms, matched_pairs, read_smiles, small_edits
from molattn.chem.pairs import HYDROGEN, MatchedPair, Transform
from molattn.chem.single_edits import EDIT_KINDS
from molattn.errors import SmilesError, UsageError
from tests.molecules import esol

PARENTS = ("CCCCO", "Fc1ccccc1", "Cc1ccncc1", "CC(C)CC(=O)O", "OCCCl", "OCCCN", "C", "c1ccc2[nH]ccc2c1")


def formula(smiles: str) -> dict[str, int]:
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    found: dict[str, int] = {}
    for atom in mol.GetAtoms():
        found[atom.GetSymbol()] = found.get(atom.GetSymbol(), 0) + 1
    return found


DIFFERENCES = {
    "CH3/H": {"C": 1, "H": 2},
    "CH2 in a chain": {"C": 1, "H": 2},
    "OH/H": {"O": 1},
    "F/Cl": {"F": 1, "Cl": -1},
    "N/CH": {"N": 1, "C": -1, "H": -1},
}


@pytest.mark.parametrize("smiles", PARENTS)
def test_an_edit_changes_the_formula_by_its_kind(smiles: str) -> None:
    before = formula(smiles)
    for edit in small_edits(smiles):
        after = formula(edit.smiles)
        change = {e: after.get(e, 0) - before.get(e, 0) for e in {*before, *after}}
        change = {e: n for e, n in change.items() if n}
        kind = DIFFERENCES[edit.kind]
        assert change in (kind, {e: -n for e, n in kind.items()}), edit
        assert canonical_smiles(read_smiles(edit.smiles)) == edit.smiles


@pytest.mark.parametrize("smiles", PARENTS)
def test_the_changed_atoms_are_those_that_only_one_of_the_two_has(smiles: str) -> None:
    parent = read_smiles(smiles)
    for edit in small_edits(smiles):
        child = Chem.MolFromSmiles(edit.smiles)
        assert len(edit.removed) + len(edit.added) in (1, 2)
        assert parent.GetNumAtoms() - len(edit.removed) == child.GetNumAtoms() - len(edit.added)
        elements = {child.GetAtomWithIdx(i).GetSymbol() for i in edit.added}
        elements |= {parent.GetAtomWithIdx(i).GetSymbol() for i in edit.removed}
        assert elements == {"CH3/H": {"C"}, "CH2 in a chain": {"C"}, "OH/H": {"O"}}.get(
            edit.kind, set(edit.kind.replace("CH", "C").split("/"))
        )


def test_every_edit_can_be_undone() -> None:
    for smiles in PARENTS:
        own = canonical_smiles(read_smiles(smiles))
        for edit in small_edits(smiles):
            # The scan puts no OH on a carbon with a heteroatom, nor the other way round.
            if edit.kind != "OH/H":
                assert own in {back.smiles for back in small_edits(edit.smiles)}, (smiles, edit)


def test_kinds_and_numbers_are_chosen_by_the_seed() -> None:
    every = small_edits("OCCCc1ccc(F)cc1")
    assert {edit.kind for edit in every} == set(EDIT_KINDS)
    some = [small_edits("OCCCc1ccc(F)cc1", kinds=("CH3/H", "F/Cl"), max_per_kind=1, seed=s) for s in range(6)]
    assert all([edit.kind for edit in found] == ["CH3/H", "F/Cl"] and set(found) <= set(every) for found in some)
    assert len({found[0].smiles for found in some}) > 1
    assert some[0] == small_edits("OCCCc1ccc(F)cc1", kinds=("CH3/H", "F/Cl"), max_per_kind=1, seed=0)
    with pytest.raises(SmilesError, match="ring"):
        small_edits("C1CC")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["CH3/H", "F/CI"]}, r"^unknown kind 'F/CI': choose one of CH3/H, .*; did you mean 'F/Cl'\?$"),
        ({"max_per_kind": -1}, "^max_per_kind is at least 0, not -1; leave it out for all edits$"),
    ],
)
def test_unknown_kinds_and_negative_numbers_are_errors_and_none_of_either_is_no_edit(
    options: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        small_edits("CCCl", **options)
    assert small_edits("CCCl", kinds=()) == small_edits("CCCl", max_per_kind=0) == []


def test_without_their_changed_atoms_the_molecules_of_a_pair_are_the_same() -> None:
    smiles = [s for s in esol(150)[0] if "." not in s]
    pairs = matched_pairs(smiles)
    assert len(pairs) > 40
    for pair, (removed, added) in zip(pairs, changed_atoms(smiles, pairs), strict=True):
        rests = []
        for i, atoms, substituent in (
            (pair.first, removed, pair.transform.removed),
            (pair.second, added, pair.transform.added),
        ):
            mol = Chem.RWMol(Chem.MolFromSmiles(smiles[i]))
            assert (atoms == ()) == (substituent == HYDROGEN)
            assert len(atoms) == (0 if substituent == HYDROGEN else Chem.MolFromSmiles(substituent).GetNumAtoms() - 1)
            Chem.Kekulize(mol, clearAromaticFlags=True)
            for k in sorted(atoms, reverse=True):
                mol.RemoveAtom(k)
            rests.append(mol)
        formulas = [sorted(a.GetSymbol() for a in rest.GetAtoms()) for rest in rests]
        assert formulas[0] == formulas[1] and all(len(Chem.GetMolFrags(rest)) == 1 for rest in rests)


def test_pairs_that_do_not_match_the_molecules_are_refused() -> None:
    wrong = MatchedPair(0, 1, Transform("F[*:1]", "Cl[*:1]", "c"))
    with pytest.raises(ValueError, match="is no matched pair of"):
        changed_atoms(["Fc1ccccc1", "Brc1ccccc1"], [wrong])
