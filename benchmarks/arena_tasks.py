"""The tasks of `arena.py`: their metrics, what a training may know of them, and the splits of the protocols.

Nothing here reads a label of a test molecule; `arena_seal.py` alone does. Of TDC's ADMET group a folder tdc/TASK holds
train_val.csv and test.csv with columns Drug and Y; of MoleculeACE one table holds a target, with columns smiles,
`y [pEC50/pKi]`, cliff_mol and split.
"""

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem.Scaffolds import MurckoScaffold

from molattn.chem import canonical_smiles, inchi_key, read_smiles
from molattn.data import random_split
from molattn.errors import InputError, MolattnError

TDC, MOLECULEACE = "tdc", "moleculeace"
TRAIN_SHARE = 0.875
"""Of the labelled molecules of a TDC task; the others validate."""

ACE_SIZES = (0.9, 0.1, 0.0)
ACE_LABEL = "y [pEC50/pKi]"
BLOCK = 14
"""Characters of the first block of an InChIKey: what is bonded to what, without stereochemistry or charges."""

KINDS = {"mae": "regression", "rmse": "regression", "spearman": "regression", "auroc": "binary", "auprc": "binary"}


@dataclass(frozen=True)
class Task:
    """One task of the arena.

    Attributes:
        name: that of its folder, or of its table.
        group: TDC or MOLECULEACE.
        metric: its metric in the published tables, a name of `molattn.training.metrics`.
        molecules: the rows with a label that training may see.
        log_target: whether its target spans orders of magnitude: CatBoost learns its logarithm, as MapLight does.
    """

    name: str
    group: str
    metric: str
    molecules: int
    log_target: bool = False

    @property
    def kind(self) -> str:
        """Of its target: "regression" or "binary"."""
        return KINDS[self.metric]


_TDC = (
    Task("caco2_wang", TDC, "mae", 728),
    Task("bioavailability_ma", TDC, "auroc", 512),
    Task("lipophilicity_astrazeneca", TDC, "mae", 3360),
    Task("solubility_aqsoldb", TDC, "mae", 7985),
    Task("hia_hou", TDC, "auroc", 461),
    Task("pgp_broccatelli", TDC, "auroc", 973),
    Task("bbb_martins", TDC, "auroc", 1624),
    Task("ppbr_az", TDC, "mae", 2231),
    Task("vdss_lombardo", TDC, "spearman", 904, log_target=True),
    Task("cyp2c9_veith", TDC, "auprc", 9673),
    Task("cyp2d6_veith", TDC, "auprc", 10504),
    Task("cyp3a4_veith", TDC, "auprc", 9861),
    Task("cyp2c9_substrate_carbonmangels", TDC, "auprc", 534),
    Task("cyp2d6_substrate_carbonmangels", TDC, "auprc", 532),
    Task("cyp3a4_substrate_carbonmangels", TDC, "auroc", 535),
    Task("half_life_obach", TDC, "spearman", 532, log_target=True),
    Task("clearance_hepatocyte_az", TDC, "spearman", 970, log_target=True),
    Task("clearance_microsome_az", TDC, "spearman", 881, log_target=True),
    Task("ld50_zhu", TDC, "mae", 5907),
    Task("herg", TDC, "auroc", 523),
    Task("ames", TDC, "auroc", 5821),
    Task("dili", TDC, "auroc", 379),
)
_ACE = {
    "CHEMBL1862_Ki": 633,
    "CHEMBL2034_Ki": 598,
    "CHEMBL2047_EC50": 503,
    "CHEMBL2147_Ki": 1162,
    "CHEMBL214_Ki": 2651,
    "CHEMBL219_Ki": 1491,
    "CHEMBL228_Ki": 1362,
    "CHEMBL233_Ki": 2512,
    "CHEMBL234_Ki": 2924,
    "CHEMBL236_Ki": 2077,
    "CHEMBL237_EC50": 762,
    "CHEMBL238_Ki": 839,
    "CHEMBL239_EC50": 1374,
    "CHEMBL262_Ki": 683,
    "CHEMBL264_Ki": 2288,
    "CHEMBL287_Ki": 1061,
    "CHEMBL2971_Ki": 779,
    "CHEMBL4005_Ki": 767,
    "CHEMBL4203_Ki": 582,
    "CHEMBL4792_Ki": 1174,
}
TASKS = {task.name: task for task in (*_TDC, *(Task(name, MOLECULEACE, "rmse", n) for name, n in _ACE.items()))}
"""All tasks by their names, those of TDC in the order of its tables."""


def tasks_of(group: str) -> list[Task]:
    """The tasks of a group."""
    return [task for task in TASKS.values() if task.group == group]


@dataclass(frozen=True)
class Known:
    """What a training may know of a task.

    Attributes:
        smiles: of the labelled molecules, in the order of the table.
        y: (n,) their labels.
        test: SMILES of all test molecules, in the order of the table.
        unreadable: how many labelled rows RDKit refuses; they are left out of `smiles`.
    """

    smiles: tuple[str, ...]
    y: np.ndarray
    test: tuple[str, ...]
    unreadable: int = 0


@cache
def is_readable(smiles: str) -> bool:
    """Whether the SMILES is a molecule."""
    try:
        return bool(canonical_smiles(read_smiles(smiles)))
    except MolattnError:
        return False


@cache
def known(data: Path, name: str) -> Known:
    """Read what training may know of a task: of a test molecule its SMILES alone.

    Args:
        data: the folder that holds tdc/ and moleculeace/.
        name: of the task.

    Raises:
        InputError: there is no such task, or no table of it.
    """
    task = TASKS.get(name)
    if task is None:
        raise InputError(f"there is no task {name!r} in the arena: choose among {', '.join(TASKS)}")
    if task.group == TDC:
        labelled = [(row["Drug"], row["Y"]) for row in rows_of(data / TDC / name / "train_val.csv")]
        test = tuple(row["Drug"] for row in rows_of(data / TDC / name / "test.csv"))
    else:
        rows = rows_of(data / MOLECULEACE / f"{name}.csv")
        labelled = [(row["smiles"], row[ACE_LABEL]) for row in rows if row["split"] == "train"]
        test = tuple(row["smiles"] for row in rows if row["split"] == "test")
    read = [(smiles, float(y)) for smiles, y in labelled if is_readable(smiles)]
    y = np.array([value for _, value in read])
    return Known(tuple(smiles for smiles, _ in read), y, test, len(labelled) - len(read))


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table of the arena.

    Raises:
        InputError: there is none.
    """
    if not path.is_file():
        raise InputError(f"there is no table {path}: the folder of the arena holds tdc/TASK and moleculeace/")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def scaffold(smiles: str) -> str:
    """The Bemis-Murcko scaffold as TDC computes it: RDKit's, without stereochemistry; '' without rings."""
    with rdBase.BlockLogs():
        return MurckoScaffold.MurckoScaffoldSmiles(mol=Chem.MolFromSmiles(smiles), includeChirality=False)


def scaffold_sides(smiles: Sequence[str], seed: int) -> np.ndarray:
    """TDC's split of the labelled molecules into train and val, by scaffold.

    Scaffolds, in the order of their first molecules, are shuffled by Python's generator with the seed; then each goes
    to train if the molecules there are at most int(0.875 n) with it, and else to val. TDC puts scaffolds with more
    molecules than half of the validation or the test share first, and shuffles those and the others apart. Its
    benchmarks ask for a test share of 0, so that all scaffolds are of the first kind, and there is one shuffle.

    What may differ from a split that TDC's package makes: the scaffolds of another version of RDKit, and the order of
    the rows, which is that of the published table here. `molattn.data.scaffold_balanced_split` follows the same idea,
    but does not depend on the order of the rows and draws from another generator, so it makes other splits.

    Returns: (n,) "train" or "val".
    """
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(smiles):
        groups.setdefault(scaffold(text), []).append(row)
    shuffled = list(groups.values())
    random.Random(seed).shuffle(shuffled)
    room, sides = int(TRAIN_SHARE * len(smiles)), np.full(len(smiles), "val", dtype="<U5")
    filled = 0
    for rows in shuffled:
        if filled + len(rows) <= room:
            sides[rows] = "train"
            filled += len(rows)
    return sides


def sides_of(task: Task, smiles: Sequence[str], seed: int) -> np.ndarray:
    """(n,) train or val: TDC's split by scaffold; of MoleculeACE, whose test molecules are like the others, at random.

    MoleculeACE says which molecules test, and leaves validation to the model: a tenth, by molecule.
    """
    if task.group == TDC:
        return scaffold_sides(smiles, seed)
    return random_split([canonical_smiles(read_smiles(text)) for text in smiles], ACE_SIZES, seed)


@cache
def on_both_sides(labelled: tuple[str, ...], test: tuple[str, ...]) -> int:
    """How many test molecules have the first block of their InChIKey in common with a labelled one."""
    blocks = {inchi_key(text)[:BLOCK] for text in labelled if is_readable(text)} - {""}
    return sum(inchi_key(text)[:BLOCK] in blocks for text in test if is_readable(text))
