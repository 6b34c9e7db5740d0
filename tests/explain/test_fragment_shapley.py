"""Shapley values over connected fragments: by enumeration, on functions with known values, and on a trained model."""

import numpy as np
import pytest
from rdkit import Chem

import molattn
from molattn import MolAttentionRegressor
from molattn.chem import Fragments
from molattn.errors import UsageError
from molattn.explain import fragment_shapley as module
from molattn.explain.fragment_shapley import FRAGMENT_SHAPLEY, growth_steps
from tests.molecules import esol

MOLECULES = (
    "CCCCO",
    "CC(=O)Oc1ccccc1C(=O)O",
    "Cc1ccc([N+](=O)[O-])cc1",
    "C[C@H](N)C(=O)O",
    "F/C=C/Cl",
    "c1ccc2[nH]ccc2c1",
    "CC(=O)[O-].[Na+]",
    "C",
)


@pytest.fixture(scope="module")
def predictor():
    smiles, values = esol(60)
    return MolAttentionRegressor(hidden_dim=16, num_layers=2, num_heads=2, epochs=2).fit(smiles, values).predictor_


def by_orders(neighbors, function):
    """The values by recursion over all orders: an oracle that shares no code with the module."""
    n = len(neighbors)
    values = np.zeros(n)

    def grow(fragment, probability):
        joining = sorted({v for u in fragment for v in neighbors[u]} - set(fragment))
        for unit in joining:
            values[unit] += (probability / len(joining)) * (function({*fragment, unit}) - function({*fragment}))
            grow((*fragment, unit), probability / len(joining))

    for unit in range(n):
        grow((unit,), 1 / n)
    return values


# Fragments


@pytest.mark.parametrize("smiles", MOLECULES)
def test_every_fragment_is_a_molecule_with_the_elements_of_its_atoms(smiles):
    fragments = Fragments(smiles)
    mol = Chem.MolFromSmiles(smiles)
    assert sorted(i for unit in fragments.units for i in unit) == list(range(mol.GetNumAtoms()))
    for before, unit in growth_steps(fragments.neighbors)[1]:
        kept = before | {unit}
        elements = sorted(mol.GetAtomWithIdx(i).GetSymbol() for u in kept for i in fragments.units[u])
        found = Chem.MolFromSmiles(fragments.smiles(kept))
        assert sorted(a.GetSymbol() for a in found.GetAtoms()) == elements
        assert sum(a.GetNumRadicalElectrons() for a in found.GetAtoms()) == 0
    assert fragments.smiles(range(len(fragments.units))) == Chem.CanonSmiles(smiles)


def test_cut_bonds_are_replaced_by_hydrogens():
    butanol = Fragments("OCCCC")
    of_atom = {unit[0]: u for u, unit in enumerate(butanol.units)}
    assert butanol.smiles({of_atom[0]}) == "O"
    assert butanol.smiles({of_atom[0], of_atom[1]}) == "CO"
    assert butanol.smiles({of_atom[2], of_atom[3]}) == "CC"
    pyrrole = Fragments("c1cc[nH]c1")
    assert {pyrrole.smiles({u}) for u in range(5)} == {"C", "N"}
    acid = Fragments("C[C@H](N)C(=O)O")
    names = {acid.smiles(step[0] | {step[1]}) for step in growth_steps(acid.neighbors)[1]}
    assert {"CCN", "NCC=O", "C[C@H](N)C(=O)O"} <= names  # no stereo where a bond is cut
    assert {s for s in names if "@" in s} == {"C[C@H](N)C=O", "C[C@H](N)CO", "C[C@H](N)C(=O)O"}


def test_opposite_charges_that_are_bonded_stay_together():
    nitro = Fragments("C[N+](=O)[O-]")
    assert sorted(map(len, nitro.units)) == [1, 1, 2]
    assert all(Chem.GetFormalCharge(Chem.MolFromSmiles(nitro.smiles({u}))) == 0 for u in range(3))
    assert sorted(map(len, Fragments("CC(=O)[O-].[Na+]").units)) == [1, 1, 1, 1, 1]


def test_symmetry_is_that_of_the_molecule():
    assert len(set(Fragments("c1ccccc1").symmetry)) == 1
    toluene = Fragments("Cc1ccccc1").symmetry
    assert toluene[2] == toluene[6] and toluene[3] == toluene[5] and len(set(toluene)) == 5


# Values


@pytest.mark.parametrize("smiles", ["CCO", "CC(C)C(=O)N", "C1CC1CO", "FC(F)(F)CCl"])
def test_values_are_those_of_an_enumeration_of_all_orders(smiles, predictor, monkeypatch):
    weights = {"C": 1.0, "O": -2.5, "N": 3.0, "F": 0.5, "Cl": 0.25}

    def function(text):
        mol = Chem.MolFromSmiles(text)
        return sum(weights[a.GetSymbol()] for a in mol.GetAtoms()) + 0.3 * mol.GetNumAtoms() ** 2 - mol.GetNumBonds()

    monkeypatch.setattr(module, "_outputs", lambda _, smiles: {s: np.array([function(s)]) for s in smiles})
    terms = module.fragment_shapley(predictor._artifact, predictor._read_list([smiles], None)[0][0], 0)
    fragments = Fragments(smiles)
    of_units = by_orders(fragments.neighbors, lambda units: function(fragments.smiles(units)))
    expected = np.zeros(len(terms.values))
    for unit, value in zip(fragments.units, of_units, strict=True):
        expected[list(unit)] = value
    symmetry = np.array(fragments.symmetry)
    expected = [expected[symmetry == s].mean() for s in symmetry]
    np.testing.assert_allclose(terms.values, expected, atol=1e-9)


def test_a_sum_of_atom_terms_has_those_terms(predictor, monkeypatch):
    """Up to the first atom, whose term is in the constant: a share of 1/n of each term."""
    weights = {"C": -0.5, "O": 1.0}
    monkeypatch.setattr(
        module,
        "_outputs",
        lambda _, smiles: {
            s: np.array([sum(weights[a.GetSymbol()] for a in Chem.MolFromSmiles(s).GetAtoms())]) for s in smiles
        },
    )
    terms = module.fragment_shapley(predictor._artifact, predictor._read_list(["CCCCO"], None)[0][0], 0)
    np.testing.assert_allclose(terms.values, 0.8 * np.array([-0.5] * 4 + [1.0]), atol=1e-12)
    assert terms.constant == pytest.approx(-0.2)


@pytest.mark.parametrize("smiles", MOLECULES)
def test_the_constant_and_the_values_add_up_to_the_prediction(smiles, predictor):
    found = predictor.attributions(smiles)
    assert found.method == FRAGMENT_SHAPLEY and found.adds_up and not found.other_terms
    assert found.constant + found.values.sum() == pytest.approx(float(predictor.predict(smiles)), abs=1e-5)


@pytest.mark.parametrize("limit", [module.MAX_EXACT, 10])
def test_values_do_not_depend_on_the_smiles_and_are_equal_for_symmetric_atoms(limit, predictor, monkeypatch):
    monkeypatch.setattr(module, "MAX_EXACT", limit)
    mol = Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O")
    order = np.random.default_rng(0).permutation(13).tolist()
    moved = Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)
    by_element = [
        sorted(zip(found.symbols, found.values.round(5), strict=True))
        for found in map(predictor.attributions, (Chem.MolToSmiles(mol), moved))
    ]
    for (a, x), (b, y) in zip(*by_element, strict=True):
        assert a == b and x == pytest.approx(y, abs=1e-4)
    benzene = predictor.attributions("c1ccccc1").values
    np.testing.assert_allclose(benzene, benzene[0], atol=1e-12)


def test_sampled_orders_are_close_to_all_orders(predictor, monkeypatch):
    smiles = "CC(=O)Oc1ccccc1C(=O)O"
    exact = predictor.attributions(smiles).values
    monkeypatch.setattr(module, "MAX_EXACT", 10)
    sampled = predictor.attributions(smiles)
    assert 0 < abs(sampled.values - exact).max() < 0.3 * np.ptp(exact)
    assert sampled.constant + sampled.values.sum() == pytest.approx(sampled.prediction, abs=1e-5)


def test_fragments_that_are_known_are_not_computed_again(predictor, monkeypatch):
    smiles = ["CCCO", "CCCN", "CCCO"]
    expected = [predictor.attributions(s).values for s in smiles]
    asked, known, outputs = [], {}, module._outputs
    monkeypatch.setattr(module, "_outputs", lambda a, texts: (asked.append(list(texts)), outputs(a, texts))[1])
    for text, values in zip(smiles, expected, strict=True):
        molecule = predictor._read_list([text], None)[0][0]
        terms = module.fragment_shapley(predictor._artifact, molecule, 0, known)
        np.testing.assert_allclose(terms.values * predictor._artifact.scaler.std[0], values, atol=1e-5)
    assert sorted(asked[1]) == ["CCCN", "CCN", "CN", "N"] and asked[2] == []
    assert sorted(known) == sorted({*asked[0], *asked[1]})


def test_a_fragment_that_is_refused_has_the_mean_of_the_smaller_ones(predictor, monkeypatch):
    known = {"C": 1.0, "O": 3.0, "CCO": 7.0}  # neither CC nor CO
    monkeypatch.setattr(module, "_outputs", lambda _, smiles: {s: np.array([known.get(s, np.nan)]) for s in smiles})
    terms = module.fragment_shapley(predictor._artifact, predictor._read_list(["CCO"], None)[0][0], 0)
    assert terms.constant + terms.values.sum() == pytest.approx(7.0)
    # C, CC (1.0), CO (2.0): orders C0 C1 O, O C1 C0 with 1/3 each, and C1 C0 O, C1 O C0 with 1/6 each.
    expected = [(7 - 2) / 3 + 0 / 6 + 5 / 6, 0 / 3 - 1 / 3, (7 - 1) / 3 + 6 / 6 + 1 / 6]
    np.testing.assert_allclose(terms.values, expected)


def test_classes_and_several_targets_are_explained():
    smiles, values = esol(40)
    kinds = np.where(np.array(values) > np.median(values), "high", "low")
    model = molattn.MolAttentionClassifier(hidden_dim=8, num_layers=1, epochs=1).fit(smiles, kinds)
    found = model.predictor_.attributions("CCO")
    assert found.method == FRAGMENT_SHAPLEY and found.unit == "log-odds"
    assert found.constant + found.values.sum() == pytest.approx(found.prediction, abs=1e-5)


def test_models_without_fragments_have_another_default():
    smiles, values = esol(20)
    small = {"hidden_dim": 8, "num_layers": 1, "epochs": 1, "base": "none"}
    for settings, reason in (
        ({"add_hs": True}, "the model reads hydrogens as atoms"),
        ({"settings": ["data.conformers=true"], "preset": "mat", "hidden_dim": 16}, "the model reads 3D geometries"),
    ):
        predictor = MolAttentionRegressor(**{**small, **settings}).fit(smiles, values).predictor_
        with pytest.raises(UsageError, match=f"method fragment-shapley: {reason}"):
            predictor.attributions("CCO", method=FRAGMENT_SHAPLEY)
        assert predictor.attributions("CCO").method in ("additive", "occlusion")
    table = np.array([[s, str(i)] for i, s in enumerate(smiles)], dtype=object)
    described = MolAttentionRegressor(**small, descriptor_columns=[1]).fit(table, values).predictor_
    with pytest.raises(UsageError, match="reads descriptor columns, which fragments do not have: x1"):
        described.attributions("CCO", method=FRAGMENT_SHAPLEY, descriptors=[1.0])


def test_no_change_of_a_module_constant_is_needed_for_a_chain():
    """A chain of n units has n(n + 1) / 2 connected fragments, so that its values are exact."""
    n = 40
    neighbors = [[v for v in (u - 1, u + 1) if 0 <= v < n] for u in range(n)]
    first, steps = growth_steps(neighbors)
    assert len({f | {u} for f, u in steps}) + len(first) == n * (n + 1) / 2
    for size in range(1, n):
        assert sum(w for (f, _), w in steps.items() if len(f) == size) == pytest.approx(1)


SERIES = (
    *("C" * n + "O" for n in range(2, 9)),  # 1-alkanols
    *("C" * n for n in range(2, 9)),
    *("C" * n + "N" for n in range(2, 7)),
    *("C" * n + "(=O)O" for n in range(2, 7)),
    *("C" * n + "(=O)C" for n in range(2, 6)),
    *(f"{r}c1ccccc1" for r in ("C", "F", "Cl", "Br", "I", "O", "N")),
    *(f"{r}c1ccc(C)cc1" for r in ("C", "F", "Cl", "Br", "O", "N")),
    *(f"{r}CCCC" for r in ("F", "Cl", "Br", "O", "N", "S")),
    *(f"{r}c1ccccn1" for r in ("C", "Cl", "O")),
)
"""Molecules whose first atom was added to the molecule before it in its series."""


@pytest.mark.slow
def test_the_sign_of_what_was_added_is_that_of_the_change_of_the_prediction(tmp_path):
    assert len(SERIES) == 50
    run = molattn.train("esol", output_dir=tmp_path / "run", quiet=True, accelerator="cpu")
    predictor = molattn.load(run.folder)
    same = {"fragment-shapley": 0, "additive": 0}
    for smiles in SERIES:
        mol = Chem.RWMol(Chem.MolFromSmiles(smiles))
        mol.RemoveAtom(0)
        Chem.SanitizeMol(mol)
        change = float(predictor.predict(smiles)) - float(predictor.predict(Chem.MolToSmiles(mol)))
        for method in same:
            value = predictor.attributions(smiles, method=method).values[0]
            same[method] += int(np.sign(value) == np.sign(change))
    assert same["fragment-shapley"] >= 45 > same["additive"], same
