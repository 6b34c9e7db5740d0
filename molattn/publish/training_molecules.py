"""What the training molecules of a run are made of: elements, sizes, and what their graphs do not represent."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from molattn.chem import MAX_ATOMS, MoleculeGraph, featurize
from molattn.data import read_table
from molattn.data.tables.table import column

MAX_MOLECULES = 100_000
"""More training molecules are sampled at even distances: this many take some five seconds."""


@dataclass(frozen=True)
class TrainingMolecules:
    """The training molecules of a run.

    Attributes:
        count: how many rows of the table were trained on.
        examined: how many of them were read here.
        elements: how many of those have each element, the most frequent first.
        sizes: their smallest, median and largest number of heavy atoms.
        not_represented: how many have a property that the codes of atoms and bonds lack, such as an isotope.
    """

    count: int
    examined: int
    elements: Mapping[str, int]
    sizes: tuple[int, float, int]
    not_represented: int


def training_molecules(
    run: Path, standardize: str = "", max_atoms: int = MAX_ATOMS, max_molecules: int = MAX_MOLECULES
) -> TrainingMolecules | None:
    """The training molecules in a run's `predictions.csv`; None without that file, or without one that can be read.

    Args:
        run: the folder of the run.
        standardize, max_atoms: how its molecules are read.
        max_molecules: how many are examined.
    """
    path = run / "predictions.csv"
    if not path.is_file():
        return None
    rows = read_table(path)
    labelled = zip(column(rows, "smiles"), column(rows, "split"), strict=True)
    smiles = [text for text, split in labelled if split == "train"]
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
