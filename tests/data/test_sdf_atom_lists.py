"""Atom lists of an SDF: for any order of atoms and hydrogens, each value stays with its atom."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from molattn.chem import molecule_graph
from molattn.chem.sdf import read_molblock
from molattn.data import Table, read_table
from molattn.data.tables.atom_lists import is_rdkit_atom_list, reorder_atom_lists
from tests.molecules import esol

# Hydrogens that stay atoms, ions, isotopes, stereochemistry; and molecules as they come.
MOLECULES = ["[H][H]", "[2H]OC", "[H]/N=C/C", "[H-].[Na+]", "C[C@H](F)Cl", "c1cc[nH]c1", "[NH4+].[Cl-]", *esol(60)[0]]


def written(mol: Chem.Mol, shuffle: int | None, *, explicit: bool) -> Chem.Mol:
    """The molecule with hydrogens as atoms or without, its atoms in another order."""
    mol = Chem.AddHs(mol) if explicit else Chem.Mol(mol)
    order = list(range(mol.GetNumAtoms()))
    if shuffle is not None:
        random.Random(shuffle).shuffle(order)
    return Chem.RenumberAtoms(mol, order)


def sdf(path: Path, mols: list[Chem.Mol]) -> Table:
    """What is read of the molecules, written by RDKit."""
    with Chem.SDWriter(str(path)) as writer:
        for mol in mols:
            writer.write(mol)
    return read_table(path)


@pytest.mark.parametrize("add_hs", [False, True])
@pytest.mark.parametrize("explicit", [False, True])
def test_every_value_stays_with_its_atom(tmp_path: Path, explicit: bool, add_hs: bool) -> None:
    """Values that tell where an atom is: 67 molecules four ways, 0 values lost or at another atom."""
    mols = []
    for n, smiles in enumerate(MOLECULES):
        mol = written(Chem.MolFromSmiles(smiles), n, explicit=explicit)
        ranks = Chem.CanonicalRankAtoms(Chem.AddHs(mol), breakTies=False)
        for atom in mol.GetAtoms():
            atom.SetDoubleProp("q", atom.GetAtomicNum() + ranks[atom.GetIdx()] / 1000)
        Chem.CreateAtomDoublePropertyList(mol, "q")
        mols.append(mol)
    table = sdf(tmp_path / "t.sdf", mols)
    assert is_rdkit_atom_list(table, "atom.dprop.q") and not is_rdkit_atom_list(table, "smiles")
    found = reorder_atom_lists(table, ["atom.dprop.q"], add_hs)
    assert found.reasons == {}
    for row, source in enumerate(mols):
        smiles, text = found.table.rows[row][0], found.table.rows[row][-1]
        graph = molecule_graph(smiles, add_hs=add_hs)
        values = json.loads(text)
        assert len(values) == graph.num_atoms
        # Equal atoms have equal values, so that atoms are matched by canonical rank.
        whole = Chem.AddHs(Chem.MolFromSmiles(smiles))
        match = whole.GetSubstructMatch(source, useChirality=True)
        assert len(match) == source.GetNumAtoms()
        truth = {at: source.GetAtomWithIdx(i).GetDoubleProp("q") for i, at in enumerate(match)}
        expected = [truth.get(at) for at in range(graph.num_atoms)]
        assert values == pytest.approx(expected)
    lengths = [len(json.loads(row[-1])) for row in found.table.rows]
    shorter = [row for row, mol in enumerate(mols) if lengths[row] < mol.GetNumAtoms()]
    assert found.left_out == shorter and bool(shorter) == (explicit and not add_hs)


def test_rdkit_kinds_of_lists_and_their_missing_values(tmp_path: Path) -> None:
    mol = Chem.MolFromSmiles("OCCN")
    values: dict[str, list[Any]] = {"d": [0.5, None, -1.5, 2.0], "i": [1, 2, None, 4], "b": [True, None, False, True]}
    for name, set_prop in (("d", "SetDoubleProp"), ("i", "SetIntProp"), ("b", "SetBoolProp")):
        for atom, value in zip(mol.GetAtoms(), values[name], strict=True):
            if value is not None:
                getattr(atom, set_prop)(name, value)
    for atom in list(mol.GetAtoms())[1:]:
        atom.SetProp("w", f"{atom.GetSymbol()}x")
    Chem.CreateAtomDoublePropertyList(mol, "d")
    Chem.CreateAtomIntPropertyList(mol, "i", missingValueMarker="?")
    Chem.CreateAtomBoolPropertyList(mol, "b", missingValueMarker="none", lineSize=6)
    Chem.CreateAtomStringPropertyList(mol, "w")
    table = sdf(tmp_path / "t.sdf", [mol])
    names = ["atom.dprop.d", "atom.iprop.i", "atom.bprop.b", "atom.prop.w"]
    assert all(is_rdkit_atom_list(table, name) for name in names)
    found = reorder_atom_lists(table, names, add_hs=False)
    row = dict(zip(found.table.columns, found.table.rows[0], strict=True))
    assert row["smiles"] == "NCCO"
    lists = [json.loads(row[name]) for name in names]
    assert lists == [[2, -1.5, None, 0.5], [4, None, 2, 1], [1, 0, None, 1], ["Nx", "Cx", "Cx", None]]


def test_a_list_under_another_name_follows_the_record_too(tmp_path: Path) -> None:
    mol = Chem.MolFromSmiles("OCN")
    mol.SetProp("q", "[1, null, 3]")
    found = reorder_atom_lists(sdf(tmp_path / "t.sdf", [mol]), ["q"], add_hs=False)
    assert found.table.rows[0] == ["NCO", "[3, null, 1]"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("atom.dprop.q", "1 2", "column 'atom.dprop.q': 2 values for the 3 atoms of the record"),
        ("atom.dprop.q", "[?] 1 2 3 4", "column 'atom.dprop.q': 4 values for the 3 atoms of the record"),
        ("atom.dprop.q", "[? ] 1 2 3", "must be in brackets before the first value"),
        ("q", "[1, 2", "column 'q': '[1, 2': its brackets do not match"),
    ],
)
def test_a_list_of_the_wrong_length_is_a_reason_and_left_empty(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    good, bad = Chem.MolFromSmiles("OCN"), Chem.MolFromSmiles("OCN")
    good.SetProp(name, "1 2 3")
    bad.SetProp(name, text)
    found = reorder_atom_lists(sdf(tmp_path / "t.sdf", [good, bad]), [name], add_hs=False)
    assert list(found.reasons) == [1] and reason in found.reasons[1]
    assert [row[-1] for row in found.table.rows] == ["[3, 2, 1]", ""]


def test_explicit_hydrogens_are_counted_in_the_reason(tmp_path: Path) -> None:
    mol = Chem.AddHs(Chem.MolFromSmiles("CO"))
    mol.SetProp("atom.dprop.q", "1 2")
    (reason,) = reorder_atom_lists(sdf(tmp_path / "t.sdf", [mol]), ["atom.dprop.q"], add_hs=False).reasons.values()
    assert reason.endswith("2 values for the 6 atoms of the record, explicit hydrogens among them")


def test_a_table_that_is_not_an_sdf_is_unchanged() -> None:
    table = Table(("smiles", "atom.dprop.q"), [["CO", "1 2"]], "t.csv", [2])
    assert reorder_atom_lists(table, ["atom.dprop.q"], add_hs=False).table is table
    assert not is_rdkit_atom_list(table, "atom.dprop.q")


@pytest.mark.parametrize("explicit", [False, True])
def test_atom_maps_do_not_change_the_table(explicit: bool) -> None:
    for n, smiles in enumerate(MOLECULES):
        block = Chem.MolToMolBlock(written(Chem.MolFromSmiles(smiles), n, explicit=explicit))
        mol = Chem.MolFromMolBlock(block)
        found, atoms = read_molblock(block)
        assert found == Chem.MolToSmiles(mol)
        places = np.concatenate([atoms.order, atoms.hydrogens[atoms.hydrogens >= 0]])
        assert np.array_equal(np.sort(places), range(atoms.size))
