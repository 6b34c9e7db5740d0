"""A molecule packed into columns is restored completely."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from molattn.chem import MoleculeGraph, molecule_graph, smiles_tokens
from molattn.data.store.packing import GraphPacking, Packing, TokenPacking
from molattn.data.store.ragged import RaggedColumns, RaggedWriter, encode_row


def there_and_back(folder: Path, packing: Packing, molecules: list[Any]) -> tuple[RaggedColumns, list[dict[str, Any]]]:
    metadata = []
    with RaggedWriter(folder, packing.dtypes) as writer:
        for molecule in molecules:
            columns, note = packing.pack(molecule)
            writer.write(encode_row(columns))
            metadata.append(note)
    return RaggedColumns(folder, packing.dtypes, writer.files), metadata


def test_symbols_that_do_not_follow_from_the_codes_are_kept(tmp_path: Path) -> None:
    graphs = [molecule_graph(s) for s in ("CCO", "[Og]", "*C")]
    graphs.append(replace(graphs[0], symbols=("C", "D", "O")))
    columns, metadata = there_and_back(tmp_path, GraphPacking(), graphs)
    assert metadata == [{}, {}, {}, {"symbols": ["C", "D", "O"]}]
    for i, graph in enumerate(graphs):
        found = GraphPacking().unpack(columns, i, graph.smiles, {**metadata[i], "warnings": ["w"]})
        assert (found.symbols, found.smiles, found.warnings) == (graph.symbols, graph.smiles, ("w",))
        assert GraphPacking().unpack(columns, i, "", metadata[i]).warnings == ()
        for name in ("atom_codes", "bond_codes", "path_lengths"):
            assert np.array_equal(getattr(found, name), getattr(graph, name)), (graph.smiles, name)


@pytest.mark.parametrize("distances", [False, True])
def test_bonds_and_matrices_of_every_size_keep_their_directions(tmp_path: Path, distances: bool) -> None:
    rng, graphs = np.random.default_rng(0), []
    for n in (1, 2, 3, 7, 20):
        graph = molecule_graph("C" * n)
        codes = graph.bond_codes.copy()
        there = codes != 0
        np.fill_diagonal(there, False)
        codes[there] = rng.integers(1, 255, there.sum())  # another code each way
        d = np.triu(rng.random((n, n)).astype(np.float32), 1)
        graphs.append(
            MoleculeGraph(
                smiles=graph.smiles,
                atom_codes=graph.atom_codes,
                bond_codes=codes,
                path_lengths=graph.path_lengths,
                symbols=graph.symbols,
                warnings=(),
                distances=d + d.T if distances else None,
            )
        )
    packing = GraphPacking(distances=distances)
    columns, _ = there_and_back(tmp_path, packing, graphs)
    assert packing.sizes(columns, np.arange(5)).tolist() == [1, 2, 3, 7, 20]
    padded = packing.padded(columns, np.array([3, 0, 4, 1]))
    assert padded["mask"].sum(1).tolist() == [7, 1, 20, 2]
    for i, graph in enumerate([graphs[3], graphs[0], graphs[4], graphs[1]]):
        n = graph.num_atoms
        for name in ("bond_codes", "path_lengths", *(("distances",) if distances else ())):
            matrix = padded[name][i].copy()
            assert np.array_equal(matrix[:n, :n], getattr(graph, name)), (n, name)
            matrix[:n, :n] = 0
            assert not matrix.any()
        assert np.array_equal(padded["atom_codes"][i, :n], graph.atom_codes)
        assert not padded["atom_codes"][i, n:].any()


def test_tokens_round_trip_with_their_warnings(tmp_path: Path) -> None:
    molecules = [smiles_tokens(s) for s in ("CCO", "[13CH4]", "c1ccccc1Cl")]
    columns, metadata = there_and_back(tmp_path, TokenPacking(), molecules)
    assert metadata == [{}, {}, {}]
    for i, molecule in enumerate(molecules):
        found = TokenPacking().unpack(columns, i, molecule.smiles, {"warnings": ["w"]})
        assert (found.smiles, found.labels) == (molecule.smiles, molecule.labels)
        assert found.encoded_smiles == molecule.encoded_smiles
        assert found.warnings == ("w",) and TokenPacking().unpack(columns, i, "", {}).warnings == ()
        assert found.codes.tolist() == molecule.codes.tolist() and found.codes.flags.writeable
    sizes = [m.size for m in molecules]
    assert TokenPacking().sizes(columns, np.arange(3)).tolist() == sizes
    padded = TokenPacking().padded(columns, np.array([2, 0]))["codes"]
    assert padded.shape == (2, sizes[2]) and padded[1].tolist() == [*molecules[0].codes, *[0] * (sizes[2] - sizes[0])]
