"""Atom contributions to log P and to the polar surface area."""

import pytest
from rdkit.Chem import Crippen, rdMolDescriptors

from molattn.chem import CONTRIBUTIONS, atom_contributions, contributions, contributions_table, read_smiles
from molattn.errors import UsageError
from tests.molecules import SPECIAL, esol

WHOLE = {"log_p": Crippen.MolLogP, "tpsa": rdMolDescriptors.CalcTPSA}


@pytest.mark.parametrize("what", CONTRIBUTIONS)
def test_the_terms_sum_to_what_rdkit_computes_for_the_molecule(what):
    for smiles in (*SPECIAL, "[2H]C([2H])([2H])O", "[H]O[H]", *esol(200)[0]):
        mol = read_smiles(smiles)
        terms = atom_contributions(smiles, what)
        assert terms.shape == (mol.GetNumAtoms(),)
        assert terms.sum() == pytest.approx(WHOLE[what](mol), abs=1e-9), smiles


def test_an_implicit_hydrogen_is_added_to_its_neighbour():
    # Crippen's types: C1 (methane, ethane) 0.1441, H1 (on carbon) 0.1230; O2 (alcohol) -0.2893, H2 -0.2677; C3 -0.2035.
    assert atom_contributions("C", "log_p") == pytest.approx([0.1441 + 4 * 0.1230])
    assert atom_contributions("CO", "log_p") == pytest.approx([-0.2035 + 3 * 0.1230, -0.2893 - 0.2677])
    assert atom_contributions("CO", "tpsa") == pytest.approx([0, 20.23])


def test_an_unknown_property_is_refused_before_a_molecule_is_read(monkeypatch):
    monkeypatch.setattr(contributions, "nci_molecules", lambda _: pytest.fail("molecules are read"))
    with pytest.raises(UsageError, match="unknown atom contribution 'logp': choose one of log_p, tpsa"):
        contributions_table("logp")


def test_an_unknown_property_is_refused():
    with pytest.raises(UsageError, match="unknown atom contribution 'logp': choose one of log_p, tpsa; did you mean"):
        atom_contributions("CCO", "logp")
