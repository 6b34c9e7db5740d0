"""Scaffolds of known molecules."""

import pytest

from molattn.chem import murcko_scaffold, read_smiles
from molattn.errors import InputError, SmilesError


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [
        ("CCO", ""),
        ("C", ""),
        ("[Na+].[Cl-]", ""),
        ("Cc1ccccc1", "c1ccccc1"),
        ("CC(=O)Oc1ccccc1C(=O)O", "c1ccccc1"),
        ("Cn1cccc1", "c1cc[nH]c1"),
        ("O=C1CCCCC1C", "O=C1CCCCC1"),
        ("Oc1ccc(CCc2ccncc2)cc1", "c1ccc(CCc2ccncc2)cc1"),
        ("C[C@H]1CC[C@@H](C)CC1", "C1CCCCC1"),
        ("[2H]c1ccccc1", "c1ccccc1"),
        ("[13cH]1ccccc1C", "c1ccccc1"),
        ("[CH2:1]1CC1", "C1CC1"),
    ],
)
def test_scaffolds(smiles, scaffold):
    assert murcko_scaffold(smiles) == scaffold
    assert murcko_scaffold(read_smiles(smiles)) == scaffold


def test_mirror_images_share_a_scaffold():
    assert murcko_scaffold("C1C[C@H]2CC[C@@H]1C2") == murcko_scaffold("C1CC2CCC1C2")
    assert murcko_scaffold("C1CC1/C=C/C1CC1") == murcko_scaffold("C1CC1/C=C\\C1CC1")


def test_errors():
    with pytest.raises(SmilesError):
        murcko_scaffold("C1CC")
    with pytest.raises(InputError, match="over the limit"):
        murcko_scaffold(read_smiles("C1CCCCC1C2CCCCC2"), max_atoms=11)
    with pytest.raises(InputError, match="the molecule has 12 atoms, over the limit of 11"):
        murcko_scaffold(read_smiles("C1CC1CCCCCCCCC"), max_atoms=11)  # whose scaffold has three
