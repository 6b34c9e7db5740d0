"""Statistics of the training molecules of a run: elements, sizes, and properties that the features do not encode."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from molattn.chem import MAX_ATOMS, MoleculeGraph, featurize
from molattn.data import read_table
from molattn.data.tables.table import column

MAX_MOLECULES = 100_000
"""Maximum number of training molecules that are examined, evenly spaced among all; they take about five seconds."""


@dataclass(frozen=True)
class TrainingMolecules:
    """The training molecules of a run.

    Attributes:
        count: number of training rows.
        examined: number of these rows that the statistics below are of.
        elements: number of molecules with each element, the most frequent element first.
        sizes: minimum, median and maximum number of heavy atoms.
        not_represented: number of molecules with a property that the features do not encode, such as an isotope.
    """

    count: int
    examined: int
    elements: Mapping[str, int]
    sizes: tuple[int, float, int]
    not_represented: int


def training_molecules(
    run: Path, standardize: str = "", max_atoms: int = MAX_ATOMS, max_molecules: int = MAX_MOLECULES
) -> TrainingMolecules | None:
    """Statistics of the training molecules in a run's `predictions.csv`.

    Args:
        run: the folder of the run.
        standardize, max_atoms: as in the settings of the model: see `molattn.chem.featurize`.
        max_molecules: maximum number of molecules that are examined.

    Returns:
        The statistics; None if there is no `predictions.csv`, or RDKit can read none of the molecules.
    """
    path = run / "predictions.csv"
    if not path.is_file():
        return None
    rows = read_table(path)
    smiles_and_split = zip(column(rows, "smiles"), column(rows, "split"), strict=True)
    smiles = [text for text, split in smiles_and_split if split == "train"]
    chosen = np.unique(np.linspace(0, len(smiles) - 1, min(len(smiles), max_molecules)).round().astype(int))
    found = featurize([smiles[i] for i in chosen], standardize=standardize, max_atoms=max_atoms)
    graphs = [graph for graph in found if isinstance(graph, MoleculeGraph)]
    if not graphs:
        return None
    elements = Counter(symbol for graph in graphs for symbol in sorted({*graph.symbols}))
    sizes = np.array([sum(symbol != "H" for symbol in graph.symbols) for graph in graphs])
    return TrainingMolecules(
        count=len(smiles),
        examined=len(graphs),
        elements=dict(elements.most_common()),
        sizes=(int(sizes.min()), float(np.median(sizes)), int(sizes.max())),
        not_represented=sum(bool(graph.warnings) for graph in graphs),
    )
