"""Variants: valid, distinct, with the right atoms of the parent; and which stereochemistry is preserved."""

import pytest
from rdkit import Chem
from rdkit.Chem import rdMMPA

from molattn.chem import Transform, Variant, canonical_smiles, matched_pair_variants, read_smiles, substituent_scan
from molattn.chem.edits import read_parent, substituents_of
from molattn.chem.pairs import HYDROGEN, matched_pairs, single_cuts
from molattn.chem.variants import SUBSTITUENTS
from molattn.errors import SmilesError
from tests.molecules import esol

PARENTS = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "c1ccc2[nH]ccc2c1",
    "C[C@H](N)C(=O)O",
    "C/C=C/Cl",
    "C1CCNC1",
    "C[NH3+]",
    "[Na+].CC(=O)[O-]",
    "C[C@@H]1CC[C@H](C(C)C)C[C@H]1O",
    "O=c1[nH]cnc2[nH]cnc12",
]


def all_variants(smiles: str) -> list[Variant]:
    """The scan, and all transforms among the substituents of a few molecules."""
    groups = [HYDROGEN, *SUBSTITUENTS.values(), "CC(=O)[*:1]", "CC(C)[*:1]", "OC[*:1]"]
    transforms = [
        Transform(a, b, symbol) for a in groups for b in groups if a != b for symbol in ("c", "C", "n", "N", "O")
    ]
    return [*substituent_scan(smiles), *matched_pair_variants(smiles, transforms)]


@pytest.mark.parametrize("smiles", PARENTS)
def test_variants_are_distinct_molecules_and_keep_their_atoms(smiles: str) -> None:
    parent = read_smiles(smiles)
    for found in (substituent_scan(smiles), all_variants(smiles)[len(substituent_scan(smiles)) :]):
        assert len({variant.smiles for variant in found}) == len(found)
    for variant in all_variants(smiles):
        mol = read_smiles(variant.smiles)
        assert canonical_smiles(mol) == variant.smiles != canonical_smiles(parent)
        assert not any(atom.GetNumRadicalElectrons() for atom in mol.GetAtoms())
        assert len(variant.parent_atoms) == mol.GetNumAtoms()
        kept = {p: i for i, p in enumerate(variant.parent_atoms) if p >= 0}
        assert len(kept) == sum(p >= 0 for p in variant.parent_atoms)
        for p, i in kept.items():
            old, new = parent.GetAtomWithIdx(p), mol.GetAtomWithIdx(i)
            assert (old.GetAtomicNum(), old.GetFormalCharge()) == (new.GetAtomicNum(), new.GetFormalCharge())
        # The bonds between shared atoms are those of the parent.
        for bond in parent.GetBonds():
            ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            if all(end in kept for end in ends):
                assert mol.GetBondBetweenAtoms(kept[ends[0]], kept[ends[1]]) is not None


@pytest.mark.parametrize("smiles", ["OCC", "CCCO", "OCCCl", "Clc1ccccc1", "COCC", *PARENTS])
def test_the_change_of_a_variant_and_its_atoms_do_not_depend_on_the_spelling(smiles: str) -> None:
    """Several transforms can make the same molecule, such as H>>CH3 and Cl>>CH2Cl of chloroethane."""
    mol = read_smiles(smiles)
    canonical = canonical_smiles(mol)
    order = list(Chem.CanonicalRankAtoms(mol, breakTies=False))
    wanted = {(v.smiles, v.name): sorted(order[i] for i in v.atoms) for v in all_variants(smiles)}
    for seed in range(3):
        spelling = Chem.MolToRandomSmilesVect(mol, 1, randomSeed=seed)[0]
        other = read_smiles(spelling)
        assert canonical_smiles(other) == canonical
        ranks = list(Chem.CanonicalRankAtoms(other, breakTies=False))
        assert {(v.smiles, v.name): sorted(ranks[i] for i in v.atoms) for v in all_variants(spelling)} == wanted


def test_the_first_of_several_transforms_that_make_a_molecule_is_its_change() -> None:
    """CC(O)CCO from ethanol: CH2CH2OH on its CH2, or CH(OH)CH3 on its CH3."""
    two = Transform(HYDROGEN, "OCC[*:1]", "C"), Transform(HYDROGEN, "CC(O)[*:1]", "C")
    for transforms, atom in ((two, 1), (two[::-1], 0)):
        for smiles, ethanol in (("CCO", {0: 0, 1: 1}), ("OCC", {0: 2, 1: 1})):
            (found,) = (v for v in matched_pair_variants(smiles, transforms) if v.smiles == "CC(O)CCO")
            assert (found.transform, found.atoms) == (transforms[0], (ethanol[atom],))


def test_the_scan_of_benzene_merges_equivalent_atoms() -> None:
    found = {variant.name: variant for variant in substituent_scan("c1ccccc1")}
    assert set(found) == {*(f"H>>{name}" for name in SUBSTITUENTS), "CH>>N"}
    assert all(variant.atoms == (0, 1, 2, 3, 4, 5) for variant in found.values())
    assert found["CH>>N"].smiles == "c1ccncc1"
    assert found["H>>CN"].smiles == canonical_smiles(read_smiles("N#Cc1ccccc1"))


def test_no_heteroatom_is_put_on_a_heteroatom() -> None:
    for smiles in PARENTS:
        pattern = Chem.MolFromSmarts("[#7,#8,#9,#16,#17]-[#7,#8,#9,#16,#17]")
        own = len(read_smiles(smiles).GetSubstructMatches(pattern))
        for variant in substituent_scan(smiles):
            assert len(read_smiles(variant.smiles).GetSubstructMatches(pattern)) <= own, variant


def test_stereochemistry_is_kept_at_unchanged_atoms() -> None:
    menthol = "C[C@@H]1CC[C@H](C(C)C)C[C@H]1O"
    stereo = {i for i, _ in Chem.FindMolChiralCenters(read_smiles(menthol), useLegacyImplementation=False)}
    for variant in substituent_scan(menthol):
        untouched = {p for p in stereo if p not in variant.atoms and p in variant.parent_atoms}
        mol = read_smiles(variant.smiles)
        centers = dict(Chem.FindMolChiralCenters(mol, useLegacyImplementation=False, includeUnassigned=True))
        for p in untouched:
            assert centers.get(variant.parent_atoms.index(p), "none") != "?", (variant, p)
    # The hydrogen of L-alanine's stereocenter is replaced in its place: the amine stays on the same side.
    fluorinated = next(v for v in substituent_scan("C[C@H](N)C(=O)O") if v.name == "H>>F" and v.atoms == (1,))
    assert fluorinated.smiles == canonical_smiles(read_smiles("C[C@](F)(N)C(=O)O"))
    chlorinated = next(v for v in substituent_scan("C/C=C/Cl") if v.name == "H>>Cl" and v.atoms == (0,))
    assert chlorinated.smiles == canonical_smiles(read_smiles("ClC/C=C/Cl"))
    # In place of another substituent, as well: the drawing of the anchor does not change.
    (swapped,) = matched_pair_variants("F[C@H](Cl)C", [Transform("Cl[*:1]", "O[*:1]", "C")])
    assert swapped.smiles == canonical_smiles(read_smiles("F[C@H](O)C"))


def test_a_transform_makes_the_second_molecule_of_its_pair() -> None:
    molecules = [s for s in esol(150)[0] if "." not in s]
    pairs = matched_pairs(molecules)
    assert len(pairs) > 40
    for first, second, transform in pairs:
        made = {v.smiles for v in matched_pair_variants(molecules[first], [transform])}
        assert canonical_smiles(read_smiles(molecules[second])) in made, (molecules[first], transform)


def test_substituents_of_a_parent_are_those_of_rdmmpa() -> None:
    for smiles in [*esol(150)[0], *PARENTS]:
        if "." not in smiles:
            mol = read_smiles(smiles)
            found = {(s.smiles, len(s.atoms)) for s in substituents_of(read_parent(smiles, 1000))}
            assert found == {(substituent, size) for _, substituent, size in single_cuts(mol)}
            both = [text for _, text in rdMMPA.FragmentMol(mol, maxCuts=1, resultsAsMols=False)]
            assert {substituent for substituent, _ in found} <= {side for text in both for side in text.split(".")}


def test_invalid_smiles_are_refused() -> None:
    for make in (substituent_scan, lambda s: matched_pair_variants(s, [])):
        with pytest.raises(SmilesError, match="ring"):
            make("C1CC")
