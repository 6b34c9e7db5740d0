"""Codes against RDKit's own getters, and against those of renumbered atoms."""

import random

import numpy as np
import pytest
from rdkit import Chem

from molattn.chem import (
    ATOM_FEATURES,
    BOND_FEATURES,
    BOND_SIZE,
    Feature,
    MoleculeGraph,
    atom_codes,
    bond_codes,
    molecule_graph,
    pack_bond,
    path_lengths,
    random_smiles,
    read_smiles,
    unpack_bond,
)
from molattn.chem.stereo import MAX_ITERATIONS, _labelled, _labelled_in_canonical_order, stereo_labels

from .molecules import CAGES, DRUGLIKE, MIRRORED, ODD, STEREO

COLUMNS = {feature.name: column for column, feature in enumerate(ATOM_FEATURES)}
PAIRS = {feature.name: column for column, feature in enumerate(BOND_FEATURES)}


def atom_labels(graph: MoleculeGraph, name: str) -> list[str]:
    feature = ATOM_FEATURES[COLUMNS[name]]
    return [feature.labels[code] for code in graph.atom_codes[:, COLUMNS[name]]]


def pair_label(graph: MoleculeGraph, i: int, j: int, name: str) -> str:
    return BOND_FEATURES[PAIRS[name]].labels[unpack_bond(graph.bond_codes)[i, j, PAIRS[name]]]


def renumbered(mol: Chem.Mol, rng: random.Random) -> tuple[str, list[int]]:
    """Another SMILES of the same molecule; atom k of it is atom order[k] of `mol`."""
    shuffled = list(range(mol.GetNumAtoms()))
    rng.shuffle(shuffled)
    other = Chem.RenumberAtoms(mol, shuffled)
    smiles = Chem.MolToSmiles(other, canonical=False, doRandom=rng.random() < 0.5)
    output_order = list(other.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
    return smiles, [shuffled[i] for i in output_order]


def test_the_tables():
    assert len(COLUMNS) == len(ATOM_FEATURES)
    assert all(feature.size == len(feature.labels) <= 256 for feature in (*ATOM_FEATURES, *BOND_FEATURES))
    assert BOND_SIZE <= 256
    assert ATOM_FEATURES[0].labels[6] == "C"
    assert ATOM_FEATURES[0].labels[118] == "Og"
    with pytest.raises(ValueError, match="different"):
        Feature("twice", ("a", "a"))


@pytest.mark.parametrize("smiles", DRUGLIKE + CAGES)
def test_atom_codes_are_those_of_rdkit(smiles):
    graph, mol = molecule_graph(smiles), Chem.MolFromSmiles(smiles)
    rings = mol.GetRingInfo()
    for i, atom in enumerate(mol.GetAtoms()):
        labels = {name: atom_labels(graph, name)[i] for name in COLUMNS}
        assert labels["element"] == graph.symbols[i] == atom.GetSymbol()
        assert graph.atom_codes[i, 0] == atom.GetAtomicNum()
        assert labels["degree"] == str(atom.GetDegree())
        assert labels["hydrogens"].rstrip("+") == str(atom.GetTotalNumHs())
        assert int(labels["charge"]) == atom.GetFormalCharge()
        assert labels["hybridization"] == str(atom.GetHybridization())
        assert (labels["aromatic"] == "yes") == atom.GetIsAromatic()
        assert labels["radicals"] == "0"
        assert labels["cip"] == "none"
        for size in range(3, 8):
            assert (labels[f"ring{size}"] == "yes") == rings.IsAtomInRingOfSize(i, size)
        assert (labels["ring8plus"] == "yes") == any(size >= 8 for size in rings.AtomRingSizes(i))
    assert graph.warnings == ()


@pytest.mark.parametrize("smiles", DRUGLIKE + CAGES)
def test_bond_codes_are_those_of_rdkit(smiles):
    graph, mol = molecule_graph(smiles), Chem.MolFromSmiles(smiles)
    assert (graph.bond_codes == graph.bond_codes.T).all()
    for i in range(graph.num_atoms):
        for j in range(graph.num_atoms):
            bond = mol.GetBondBetweenAtoms(i, j) if i != j else None
            if bond is None:
                assert graph.bond_codes[i, j] == pack_bond([i == j, 0, 0, 0])
                continue
            assert pair_label(graph, i, j, "bond_type") == str(bond.GetBondType()).lower()
            assert (pair_label(graph, i, j, "in_ring") == "yes") == bond.IsInRing()
            assert (pair_label(graph, i, j, "conjugated") == "yes") == bond.GetIsConjugated()


@pytest.mark.parametrize("smiles", STEREO + MIRRORED + CAGES + ODD)
def test_codes_of_a_renumbered_molecule_are_the_permuted_codes(smiles):
    rng = random.Random(smiles)
    mol = read_smiles(smiles)
    atoms, bonds = atom_codes(mol)[0], bond_codes(mol)[0]
    for _ in range(8):
        order = list(range(mol.GetNumAtoms()))
        rng.shuffle(order)
        other = Chem.RenumberAtoms(mol, order)
        np.testing.assert_array_equal(atom_codes(other)[0], atoms[order])
        np.testing.assert_array_equal(bond_codes(other)[0], bonds[np.ix_(order, order)])
        np.testing.assert_array_equal(path_lengths(other), path_lengths(mol)[np.ix_(order, order)])


@pytest.mark.parametrize("smiles", MIRRORED)
def test_a_molecule_that_is_its_mirror_image_has_the_same_codes_on_other_atoms(smiles):
    rng = random.Random(smiles)
    mol = read_smiles(smiles)
    rows = sorted(molecule_graph(smiles).atom_codes.tolist())
    for _ in range(8):
        text, _order = renumbered(mol, rng)
        assert sorted(molecule_graph(text).atom_codes.tolist()) == rows


@pytest.mark.parametrize("add_hs", [False, True])
@pytest.mark.parametrize("smiles", STEREO + CAGES + ODD + DRUGLIKE)
def test_codes_do_not_depend_on_how_the_smiles_is_written(smiles, add_hs):
    rng = random.Random(smiles)
    # With hydrogens written out, these are read back as implicit ones: so the text is written without them.
    mol = read_smiles(smiles)
    graph = molecule_graph(smiles, add_hs=add_hs)
    for _ in range(8):
        text, order = renumbered(mol, rng)
        other = molecule_graph(text, add_hs=add_hs)
        if add_hs:
            # Added hydrogens follow, those of the first atom first.
            start, of_atom = mol.GetNumAtoms(), {}
            for i, atom in enumerate(mol.GetAtoms()):
                of_atom[i] = range(start, start + atom.GetTotalNumHs())
                start += atom.GetTotalNumHs()
            order = order + [h for i in order for h in of_atom[i]]
        expected = graph.permute(order)
        assert other.symbols == expected.symbols
        np.testing.assert_array_equal(other.atom_codes, expected.atom_codes, err_msg=text)
        np.testing.assert_array_equal(other.bond_codes, expected.bond_codes, err_msg=text)
        np.testing.assert_array_equal(other.path_lengths, expected.path_lengths, err_msg=text)
        assert len(other.warnings) == len(graph.warnings)


@pytest.mark.parametrize(
    ("smiles", "labels"),
    [
        ("C[C@H](N)C(=O)O", ["S"]),
        ("C[C@@H](N)C(=O)O", ["R"]),
        ("O[C@H](C)[C@H](O)[C@@H](C)O", ["R", "R"]),
        ("C[C@H]1CC[C@@H](C)CC1", ["s", "s"]),
        ("C[C@H]1CC[C@H](C)CC1", ["r", "r"]),
        ("C[S@](=O)CC", ["S"]),
        ("CC(N)C(=O)O", []),
        ("C[C@](C)(N)O", []),
    ],
)
def test_cip_labels_of_atoms(smiles, labels):
    assert [label for label in atom_labels(molecule_graph(smiles), "cip") if label != "none"] == labels


def test_cip_labels_of_double_bonds():
    for smiles, label in {"F/C=C/F": "E", "F/C=C\\F": "Z", "FC=CF": "none", "F/C=C(/F)Cl": "Z"}.items():
        graph = molecule_graph(smiles)
        assert pair_label(graph, 1, 2, "stereo") == pair_label(graph, 2, 1, "stereo") == label
    assert pair_label(molecule_graph("F/C=C/F"), 0, 1, "stereo") == "none"


def test_mirror_images_have_different_codes():
    for one, other in [("C[C@H](N)F", "C[C@@H](N)F"), ("F/C=C/F", "F/C=C\\F")]:
        a, b = molecule_graph(one), molecule_graph(other)
        assert (a.atom_codes != b.atom_codes).any() or (a.bond_codes != b.bond_codes).any()


def test_labels_near_the_limit_are_the_same_for_all_smiles() -> None:
    # It needs 9,908 to 10,313 comparisons, by the order of its atoms.
    mol = read_smiles("C[C@H](N)c1cc(ccn1)c1ncc(s1)C(F)(F)O[C@@H]1C[C@H](C1)c1ccc(cc1)C[NH3+]")
    found = [stereo_labels(read_smiles(random_smiles(mol, seed)), max_iterations=10_000) for seed in range(8)]
    assert {tuple(sorted(labels.atoms.values())) for labels in found} == {("S", "S", "r")}
    assert not any(labels.warnings for labels in found)


@pytest.mark.parametrize("text", [*STEREO, "N/C=C\\C[C@H](O)c1ccc(C[C@@](F)(Cl)O)cc1"])
def test_labels_in_canonical_order_are_those_in_any_other(text: str) -> None:
    mol = read_smiles(text)
    canonical = _labelled_in_canonical_order(mol, MAX_ITERATIONS)
    assert canonical is not None
    direct = _labelled(mol, MAX_ITERATIONS)
    assert direct is not None
    for parts in (Chem.Mol.GetAtoms, Chem.Mol.GetBonds):
        labels = [[part.GetPropsAsDict(True).get("_CIPCode") for part in parts(m)] for m in (canonical, direct)]
        assert labels[0] == labels[1]


def test_stereo_is_unknown_beyond_the_limit_of_the_labeler():
    # A long chain would not do: RDKit 2025.9 counts few comparisons in one.
    cage = "C12C3C4C5C1C6C7C2C8C3C9C4C%10C5C6C%11C7C8C9C%10%11"
    text = "F" + "[C@@H](O)" * 5 + f"[C@]({cage})({cage}C)/C=C/Cl"
    labels = stereo_labels(read_smiles(text), max_iterations=10)
    assert set(labels.atoms.values()) == {"unknown"}
    assert set(labels.bonds.values()) == {"unknown"}
    assert "within 20 comparisons" in labels.warnings[0]
    graph = molecule_graph(text)
    assert atom_labels(graph, "cip").count("unknown") == 6
    assert len(graph.warnings) == 1


def test_computing_labels_does_not_change_the_molecule():
    mol = read_smiles("C[C@H](N)C(=O)O")
    mol.GetAtomWithIdx(1).SetProp("_CIPCode", "mine")
    assert stereo_labels(mol).atoms == {1: "S"}
    assert mol.GetAtomWithIdx(1).GetProp("_CIPCode") == "mine"


def test_unknown_is_coded_with_a_warning():
    charge = molecule_graph("C.[C+7]")
    assert atom_labels(charge, "charge") == ["0", "unknown"]
    assert charge.warnings == ("atom 1 (C): charge +7 is coded as unknown",)
    assert molecule_graph("[O-6]").warnings == ("atom 0 (O): charge -6 is coded as unknown",)
    dummy = molecule_graph("C*")
    assert atom_labels(dummy, "element") == ["C", "unknown"]
    assert dummy.warnings == ("atom 1 (*): element * is coded as unknown",)
    bond = molecule_graph("C~C")
    assert pair_label(bond, 0, 1, "bond_type") == "unknown"
    assert bond.warnings == ("bond 0-1 (C, C): bond type UNSPECIFIED is coded as unknown",)
    square = molecule_graph("Cl[Pt@SP1](Cl)(N)N")
    assert atom_labels(square, "cip")[1] == "unknown"
    assert "geometry" in square.warnings[0]
    assert molecule_graph("[2H]C").warnings == ("atom 0 (H): isotope 2 is not coded",)
    assert molecule_graph("[Og]").warnings == ()


def test_counts_beyond_the_table_share_the_last_code():
    graph = molecule_graph("F[U](F)(F)(F)(F)(F)F")
    assert atom_labels(graph, "degree")[1] == "6+"
    assert atom_labels(molecule_graph("[C]"), "radicals") == ["3+"]


def test_dative_bonds_keep_their_direction():
    graph = molecule_graph("[NH3]->[Pt](Cl)Cl")
    assert pair_label(graph, 0, 1, "bond_type") == "dative to"
    assert pair_label(graph, 1, 0, "bond_type") == "dative from"


def test_added_hydrogens_change_no_count_of_hydrogens():
    plain, full = molecule_graph("CC(=O)N"), molecule_graph("CC(=O)N", add_hs=True)
    assert atom_labels(full, "hydrogens")[:4] == atom_labels(plain, "hydrogens")
    assert full.num_atoms == 9


def test_packing_is_one_to_one():
    every = np.arange(BOND_SIZE, dtype=np.uint8)
    np.testing.assert_array_equal(pack_bond(unpack_bond(every)), every)
    assert len(np.unique(unpack_bond(every), axis=0)) == BOND_SIZE
    assert unpack_bond(np.zeros((2, 3), dtype=np.uint8)).shape == (2, 3, len(BOND_FEATURES))
    assert pack_bond([0, 0, 0, 0]) == 0
    with pytest.raises(ValueError, match="outside its table"):
        pack_bond([99, 0, 0, 0])
    with pytest.raises(ValueError, match="outside its table"):
        pack_bond([0, -1, 0, 0])
    with pytest.raises(ValueError, match="last axis"):
        pack_bond([0, 0])
    with pytest.raises(ValueError, match="packed bond"):
        unpack_bond([BOND_SIZE])


def test_bond_codes_without_stereo_labels():
    codes, warnings = bond_codes(read_smiles("F/C=C/F"))
    assert unpack_bond(codes)[1, 2].tolist() == [3, 0, 0, 1]
    assert warnings == ()
