"""Time one featurization method and `Chem.MolFromSmiles` in the same process; `featurize.py` runs it.

    python featurize_ways.py METHOD FILE ROUNDS

runs with the interpreter of the package. FILE has a SMILES on each line. It prints JSON: for each step, the
microseconds of CPU per molecule of each round. The last step is the complete method, "parse" is `Chem.MolFromSmiles`
alone. The order of the steps is random in every round.
"""

import json
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from rdkit import Chem, rdBase

Steps = dict[str, Callable[[list[str]], object]]


def for_each(function: Callable[[str], object]) -> Callable[[list[str]], object]:
    """Call a function with each SMILES; the results are discarded."""

    def run(smiles: list[str]) -> None:
        for text in smiles:
            function(text)

    return run


def rdkit() -> Steps:
    """The minimum of any method: the molecule and its path lengths."""
    return {
        "MolFromSmiles + GetDistanceMatrix": for_each(lambda text: Chem.GetDistanceMatrix(Chem.MolFromSmiles(text)))
    }


def molattn() -> Steps:
    """The stages of molattn, each including those before it."""
    from molattn.chem import featurize, molecule_graph, read_smiles
    from molattn.chem.binary import molecule_codes
    from molattn.chem.brackets import bracket_error
    from molattn.chem.parse import read_for_codes

    return {
        "brackets alone": for_each(lambda text: "[" in text and bracket_error(text)),
        "read_smiles": for_each(read_smiles),
        "read_for_codes": for_each(read_for_codes),
        "with the binary": for_each(lambda text: read_for_codes(text).ToBinary(0)),
        "with the codes": for_each(lambda text: molecule_codes(read_for_codes(text))),
        "molecule_graph": for_each(molecule_graph),
        "featurize": featurize,
    }


def pyg() -> Steps:
    """PyG."""
    from torch_geometric.utils import from_smiles

    return {"from_smiles": for_each(from_smiles)}


def chemprop() -> Steps:
    """chemprop's default featurizer."""
    from chemprop.featurizers import SimpleMoleculeMolGraphFeaturizer  # pyright: ignore[reportMissingImports]
    from chemprop.utils import make_mol  # pyright: ignore[reportMissingImports]

    featurizer = SimpleMoleculeMolGraphFeaturizer()
    return {
        "SimpleMoleculeMolGraphFeaturizer": for_each(
            lambda text: featurizer(make_mol(text, keep_h=False, add_h=False, ignore_stereo=False))
        )
    }


def chemprop_cuik() -> Steps:
    """chemprop's C++ featurizer, with batches of 64 as in its command."""
    from chemprop.featurizers import CuikmolmakerMolGraphFeaturizer  # pyright: ignore[reportMissingImports]

    featurizer = CuikmolmakerMolGraphFeaturizer()

    def run(smiles: list[str]) -> None:
        for start in range(0, len(smiles), 64):
            featurizer(smiles[start : start + 64])

    return {"CuikmolmakerMolGraphFeaturizer": run}


METHODS = {f.__name__: f for f in (rdkit, molattn, pyg, chemprop, chemprop_cuik)}


def main() -> None:
    """The command."""
    method, file, rounds = sys.argv[1:]
    rdBase.DisableLog("rdApp.*")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    smiles = Path(file).read_text().split()
    steps: Steps = {"parse": for_each(Chem.MolFromSmiles), **METHODS[method]()}
    for run in steps.values():
        run(smiles[:64])  # compiles and imports
    times: dict[str, list[float]] = {name: [] for name in steps}
    order, rng = list(steps), random.Random(0)
    for _ in range(int(rounds)):
        rng.shuffle(order)
        for name in order:
            start = time.process_time()
            steps[name](smiles)
            times[name].append((time.process_time() - start) / len(smiles) * 1e6)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
