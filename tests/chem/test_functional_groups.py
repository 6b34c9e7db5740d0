"""Functional groups of well-known molecules."""

import pytest

from molattn.chem import FUNCTIONAL_GROUPS, functional_groups
from molattn.errors import SmilesError

EXAMPLES = {
    "CCO": {"alcohol": [2]},
    "Oc1ccccc1": {"phenol": [0], "aromatic carbon": [1, 2, 3, 4, 5, 6]},
    "CCOCC": {"ether": [2]},
    "CC=O": {"aldehyde": [1, 2]},
    "C=O": {"aldehyde": [0, 1]},
    "CC(=O)C": {"ketone": [1, 2]},
    "CC(=O)O": {"carboxylic acid": [1, 2, 3]},
    "CC(=O)[O-].[Na+]": {"carboxylic acid": [1, 2, 3]},
    "CC(=O)OC": {"ester": [1, 2, 3]},
    "CC(=O)NC": {"amide": [1, 2, 3]},
    "NC(=O)N": {"urea or carbamate": [0, 1, 2, 3]},
    "COC(=O)N": {"urea or carbamate": [1, 2, 3, 4]},
    "CCN": {"aliphatic amine": [2]},
    "C[N+](C)(C)C": {"aliphatic amine": [1]},
    "CC#N": {"nitrile": [1, 2]},
    "C[N+](=O)[O-]": {"nitro": [1, 2, 3]},
    "FC(Cl)(Br)I": {"halogen": [0, 2, 3, 4]},
    "[Na+].[Cl-]": {},
    "CSC": {"thiol or sulfide": [1]},
    "CS": {"thiol or sulfide": [1]},
    "CS(=O)(=O)N": {"sulfonyl": [1, 2, 3]},
    "COP(=O)(OC)OC": {"phosphoryl": [2, 3]},
    "C=CC#C": {"alkene": [0, 1], "alkyne": [2, 3]},
    "Nc1ccncc1": {"aromatic amine": [0], "aromatic carbon": [1, 2, 3, 5, 6], "aromatic heteroatom": [4]},
    "CCC": {},
    "O": {},
}


@pytest.mark.parametrize(("smiles", "groups"), EXAMPLES.items())
def test_a_molecule_has_the_groups_that_it_is_known_for(smiles, groups):
    assert functional_groups(smiles) == groups


def test_hydrogens_change_no_group():
    for smiles in EXAMPLES:
        assert functional_groups(smiles, add_hs=True) == functional_groups(smiles)


def test_every_group_has_an_example():
    assert {group for groups in EXAMPLES.values() for group in groups} == set(FUNCTIONAL_GROUPS)


def test_invalid_smiles_are_an_error():
    with pytest.raises(SmilesError):
        functional_groups("C1CC")
