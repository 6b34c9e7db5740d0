"""One way from SMILES to a graph, timed together with parsing alone in the same process; `featurize.py` runs it.

    python featurize_ways.py WAY FILE ROUNDS

runs with the interpreter of the package. FILE has a SMILES on each line. It prints JSON: microseconds of
CPU per molecule of each round, by step; the last step is the whole way, "parse" bare `Chem.MolFromSmiles`. Steps take
turns, in another order in every round.
"""

import json
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from rdkit import Chem, RDLogger

Steps = dict[str, Callable[[list[str]], object]]


def each(make: Callable[[str], object]) -> Callable[[list[str]], object]:
    """One after the other; nothing is kept."""

    def run(smiles: list[str]) -> None:
        for text in smiles:
            make(text)

    return run


def rdkit() -> Steps:
    """What any way must do at least: the molecule and its path lengths."""
    return {"MolFromSmiles + GetDistanceMatrix": each(lambda text: Chem.GetDistanceMatrix(Chem.MolFromSmiles(text)))}


def molattn() -> Steps:
    """Ours, stage by stage, each with those before it."""
    from molattn.chem import featurize, molecule_graph, read_smiles
    from molattn.chem.binary import molecule_codes
    from molattn.chem.brackets import bracket_error
    from molattn.chem.parse import read_for_codes

    return {
        "brackets alone": each(lambda text: "[" in text and bracket_error(text)),
        "read_smiles": each(read_smiles),
        "read_for_codes": each(read_for_codes),
        "with the binary": each(lambda text: read_for_codes(text).ToBinary(0)),
        "with the codes": each(lambda text: molecule_codes(read_for_codes(text))),
        "molecule_graph": each(molecule_graph),
        "featurize": featurize,
    }


def pyg() -> Steps:
    """PyG's."""
    from torch_geometric.utils import from_smiles

    return {"from_smiles": each(from_smiles)}


def chemprop() -> Steps:
    """chemprop's default."""
    from chemprop.featurizers import SimpleMoleculeMolGraphFeaturizer
    from chemprop.utils import make_mol

    featurizer = SimpleMoleculeMolGraphFeaturizer()
    return {
        "SimpleMoleculeMolGraphFeaturizer": each(
            lambda text: featurizer(make_mol(text, keep_h=False, add_h=False, ignore_stereo=False))
        )
    }


def chemprop_cuik() -> Steps:
    """chemprop's in C++, which takes batches; of 64, as in its command."""
    from chemprop.featurizers import CuikmolmakerMolGraphFeaturizer

    featurizer = CuikmolmakerMolGraphFeaturizer()

    def run(smiles: list[str]) -> None:
        for start in range(0, len(smiles), 64):
            featurizer(smiles[start : start + 64])

    return {"CuikmolmakerMolGraphFeaturizer": run}


WAYS = {f.__name__: f for f in (rdkit, molattn, pyg, chemprop, chemprop_cuik)}


def main() -> None:
    """The command."""
    way, file, rounds = sys.argv[1:]
    RDLogger.DisableLog("rdApp.*")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    smiles = Path(file).read_text().split()
    steps: Steps = {"parse": each(Chem.MolFromSmiles), **WAYS[way]()}
    for run in steps.values():
        run(smiles[:64])  # what is built and imported at the first use
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
