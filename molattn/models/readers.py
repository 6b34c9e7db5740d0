"""The function by which each kind of model reads a SMILES, and the meaning of its codes; without torch."""

from collections.abc import Callable
from functools import partial
from typing import Any

from molattn.chem import (
    ATOM_FEATURES,
    BOND_FEATURES,
    TOKENS,
    MoleculeGraph,
    ReadOptions,
    SmilesTokens,
    molecule_graph,
    smiles_tokens,
)
from molattn.errors import UsageError


def graph_reader(options: ReadOptions) -> Callable[[object], MoleculeGraph]:
    """A picklable function from one SMILES to its graph: see `molattn.chem.molecule_graph`."""
    return partial(molecule_graph, **vars(options))


def token_reader(options: ReadOptions) -> Callable[[object], SmilesTokens]:
    """A picklable function from one SMILES to its tokens: see `molattn.chem.smiles_tokens`.

    Raises:
        UsageError: conformers; tokens have no distances.
    """
    check_no_conformers(options)
    return partial(smiles_tokens, add_hs=options.add_hs, max_atoms=options.max_atoms, standardize=options.standardize)


def check_no_conformers(options: ReadOptions) -> None:
    """Raise UsageError for options with conformers."""
    if options.conformers is not None:
        raise UsageError("the model 'smiles-transformer' reads no 3D: leave out data.conformers, or --model graph")


def graph_vocabulary() -> dict[str, dict[str, list[str]]]:
    """The labels of every atom and bond feature."""
    return {
        "atoms": {f.name: list(f.labels) for f in ATOM_FEATURES},
        "bonds": {f.name: list(f.labels) for f in BOND_FEATURES},
    }


def token_vocabulary() -> dict[str, list[str]]:
    """Every token."""
    return {"tokens": list(TOKENS)}


READERS: dict[str, Callable[[ReadOptions], Callable[[object], Any]]] = {
    "graph": graph_reader,
    "smiles-transformer": token_reader,
}
"""Functions from the read options to the reader, by the kind of the model."""

VOCABULARIES: dict[str, Callable[[], dict[str, Any]]] = {
    "graph": graph_vocabulary,
    "smiles-transformer": token_vocabulary,
}
"""The vocabularies by the kind of the model."""
