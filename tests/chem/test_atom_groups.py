"""Groups of atoms one by one: rings, and the functional groups that `functional_groups` has by kind."""

import pytest
from rdkit import Chem

from molattn.chem import functional_groups
from molattn.chem.substructures import atom_groups
from tests.molecules import SPECIAL, esol

RINGS = ("ring", "aromatic ring")


@pytest.mark.parametrize("smiles", [*SPECIAL, *esol(60)[0], "OCCO", "NC(=O)CC(=O)N", "C=CC=C"])
def test_groups_of_a_kind_are_its_atoms_without_overlap(smiles):
    expected = functional_groups(smiles)
    found = atom_groups(smiles)
    kinds = {name for name, _ in found} - {*RINGS}
    assert kinds == set(expected) - {"aromatic carbon", "aromatic heteroatom"}
    for kind in kinds:
        groups = [atoms for name, atoms in found if name == kind]
        atoms = [i for group in groups for i in group]
        assert sorted(atoms) == expected[kind], kind
    mol = Chem.MolFromSmiles(smiles)
    rings = [sorted(ring) for ring in mol.GetRingInfo().AtomRings() if len(ring) <= 8]
    assert sorted(atoms for name, atoms in found if name in RINGS) == sorted(rings)


def test_two_groups_of_one_kind_are_separate():
    assert atom_groups("OCCO") == [("alcohol", [0]), ("alcohol", [3])]
    assert atom_groups("c1ccccc1C1CC1") == [("aromatic ring", [0, 1, 2, 3, 4, 5]), ("ring", [6, 7, 8])]


def test_a_macrocycle_is_no_group():
    assert atom_groups("C1" + "C" * 10 + "1") == []
