"""The graph of one molecule, and of many in one call."""

import inspect
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from molattn.chem import MoleculeGraph, featurize, molecule_graph, unpack_bond
from molattn.errors import SmilesError

from .molecules import DRUGLIKE


def test_methane_is_one_atom_attending_to_itself():
    graph = molecule_graph("C")
    assert graph.num_atoms == 1
    assert unpack_bond(graph.bond_codes).tolist() == [[[1, 0, 0, 0]]]
    assert graph.path_lengths.tolist() == [[0]]
    assert graph.symbols == ("C",)


def test_the_input_smiles_is_stored():
    assert molecule_graph(" OCC ").smiles == " OCC "


def test_a_graph_is_frozen_and_checked():
    graph = molecule_graph("CCO")
    with pytest.raises(FrozenInstanceError):
        graph.smiles = "C"  # type: ignore[misc]
    with pytest.raises(ValueError, match="bond_codes must be uint8 of shape"):
        replace(graph, bond_codes=graph.bond_codes[:2])
    with pytest.raises(ValueError, match="path_lengths must be uint8"):
        replace(graph, path_lengths=graph.path_lengths[:, :1])


def test_graphs_are_equal_field_by_field():
    assert molecule_graph("CCO") == molecule_graph("CCO")
    assert molecule_graph("CCO") != molecule_graph("OCC")
    assert molecule_graph("CCO") != replace(molecule_graph("CCO"), warnings=("something",))
    assert molecule_graph("CCO") != "CCO"


def test_permute_and_back():
    graph = molecule_graph("CC(=O)N")
    order = [2, 0, 3, 1]
    moved = graph.permute(order)
    assert moved.symbols == ("O", "C", "N", "C")
    assert moved.path_lengths[0, 2] == graph.path_lengths[2, 3]
    assert moved.permute(np.argsort(order).tolist()) == graph
    for wrong in ([0, 0, 1, 2], [2.0, 0.0, 3.0, 1.0], ["2", "0", "3", "1"], [[2, 0], [3, 1]]):
        with pytest.raises(ValueError, match="^order must hold each of 0 to 3 once, as integers$"):
            inspect.unwrap(MoleculeGraph.permute)(graph, wrong)  # without the tests' check of its annotation
    with pytest.raises(ValueError, match="once"):
        molecule_graph("CO").permute([False, True])


def same(one: MoleculeGraph | SmilesError, other: MoleculeGraph | SmilesError) -> bool:
    if isinstance(one, SmilesError):
        return isinstance(other, SmilesError) and (one.reason, str(one)) == (other.reason, str(other))
    return one == other


def test_featurize_keeps_order_and_errors_with_and_without_workers():
    rows = [*DRUGLIKE, "", None, "C1CC", "\u0421", *DRUGLIKE[:5], float("nan"), "C" * 20_000, "O"]
    alone = featurize(rows)
    shared = featurize(rows, num_workers=2)
    assert len(alone) == len(shared) == len(rows)
    assert all(same(a, b) for a, b in zip(alone, shared, strict=True))
    bad = [k for k, outcome in enumerate(alone) if isinstance(outcome, SmilesError)]
    n = len(DRUGLIKE)
    assert bad == [n, n + 1, n + 2, n + 3, n + 9, n + 10]
    for row, outcome in zip(rows, shared, strict=True):
        if isinstance(outcome, MoleculeGraph):
            assert outcome.smiles == row


def test_featurize_of_nothing_and_of_a_stream():
    assert featurize([]) == []
    assert featurize([], num_workers=2) == []
    assert [g.num_atoms for g in featurize(iter(["C", "CC"])) if isinstance(g, MoleculeGraph)] == [1, 2]


def test_featurize_passes_its_settings_on():
    (graph,) = featurize(["C"], add_hs=True)
    assert isinstance(graph, MoleculeGraph)
    assert graph.num_atoms == 5
    (error,) = featurize(["CCC"], max_atoms=2)
    assert isinstance(error, SmilesError)
    assert "over the limit of 2" in error.reason


def test_importing_chem_imports_no_torch():
    code = "import sys, molattn.chem; sys.exit(any(m in sys.modules for m in ('torch', 'torch_geometric')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
