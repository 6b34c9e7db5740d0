"""The standard form of a molecule."""

import pytest

from molattn.chem import (
    STANDARDIZE,
    canonical_smiles,
    molecule_graph,
    random_smiles,
    read_smiles,
    smiles_tokens,
    standardized_smiles,
)
from molattn.errors import SmilesError, UsageError
from tests.molecules import SPECIAL, esol


@pytest.mark.parametrize(
    ("smiles", "form"),
    [
        ("CC(=O)[O-].[Na+]", "CC(=O)O"),
        ("[Na]OC(C)=O", "CC(=O)O"),
        ("Cl.CC(C)NCC(O)c1ccccc1", "CC(C)NCC(O)c1ccccc1"),
        ("[NH3+]CC(=O)[O-]", "NCC(=O)O"),
        ("C[N+](C)(C)C.[Cl-]", "C[N+](C)(C)C"),
        ("CS(C)=O", "C[S+](C)[O-]"),
        ("O.O.CCO", "CCO"),
        ("CC.CC", "CC"),
    ],
)
def test_salts_charges_and_groups(smiles, form):
    assert standardized_smiles(smiles, "parent") == form


def test_tautomers_change_only_on_request():
    assert standardized_smiles("Oc1ccccn1", "parent") == "Oc1ccccn1"
    assert standardized_smiles("Oc1ccccn1", "tautomer") == standardized_smiles("O=c1cccc[nH]1", "tautomer")


@pytest.mark.parametrize("how", STANDARDIZE)
def test_standard_molecules_keep_their_smiles(how):
    for smiles in (*SPECIAL, *esol(60)[0]):
        form = standardized_smiles(smiles, how)
        assert standardized_smiles(form, how) == form
        if canonical_smiles(read_smiles(form)) == canonical_smiles(read_smiles(smiles)):
            assert form == smiles


def test_all_smiles_of_a_molecule_have_the_same_form():
    for smiles in ("CC(=O)[O-].[Na+]", "[NH3+][C@@H](C)C(=O)[O-]", "C/C=C/[N+](=O)[O-].Cl", "O=N(=O)c1ccc(C)cc1.O"):
        forms = {standardized_smiles(random_smiles(read_smiles(smiles), seed), "parent") for seed in range(20)}
        assert len({canonical_smiles(read_smiles(form)) for form in forms}) == 1


@pytest.mark.parametrize("smiles", ["", "C1CC", None, "C" * 1001])
def test_invalid_smiles_are_rejected(smiles):
    with pytest.raises(SmilesError):
        standardized_smiles(smiles, "parent")


def test_a_standard_form_that_rdkit_cannot_write_is_an_error_of_its_smiles(monkeypatch):
    def fail(_):
        raise RuntimeError

    read_smiles("CCO")
    monkeypatch.setattr("rdkit.Chem.MolToSmiles", fail)
    with pytest.raises(SmilesError, match="'CCO': its standard form .parent.: RDKit fails to write the molecule"):
        standardized_smiles("CCO", "parent")


def test_graphs_and_tokens_are_those_of_the_standard_form():
    salt = "CC(=O)[O-].[Na+]"
    assert molecule_graph(salt, standardize="parent") == molecule_graph("CC(=O)O")
    assert smiles_tokens(salt, standardize="parent").encoded_smiles == "CC(=O)O"
    assert molecule_graph("OCC", standardize="parent") == molecule_graph("OCC")
    assert molecule_graph(salt).num_atoms == 5


def test_an_unknown_standard_form_is_refused_before_a_molecule_is_read():
    for smiles in ("CCO", "C1CC"):
        with pytest.raises(UsageError, match="unknown standardize 'parents': choose one of parent, tautomer"):
            standardized_smiles(smiles, "parents")
