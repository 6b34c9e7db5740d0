"""The tasks of `arena.py`: their metrics, the data that a training may use, and the splits of the protocols.

Nothing here reads a label of a test molecule: only `arena_score.py` does. A task of TDC's ADMET group is a folder
tdc/TASK with the tables train_val.csv and test.csv, columns Drug and Y; a target of MoleculeACE is one table with
columns smiles, `y [pEC50/pKi]`, cliff_mol and split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from tables import read_rows

from molattn.chem import canonical_smiles, read_smiles
from molattn.data import random_split, tdc_scaffold_split
from molattn.errors import InputError, MolattnError

TDC, MOLECULEACE = "tdc", "moleculeace"
MOLECULEACE_SIZES = (0.9, 0.1, 0.0)
MOLECULEACE_LABEL = "y [pEC50/pKi]"
TASK_TYPES = {"mae": "regression", "rmse": "regression", "spearman": "regression", "auroc": "binary", "auprc": "binary"}


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: the name of its folder or table.
        group: TDC or MOLECULEACE.
        metric: the metric of the published tables, as in `molattn.training.metrics`.
        molecules: the number of labeled training and validation rows.
        log_target: whether its target spans orders of magnitude, so that CatBoost is trained on the logarithm, as in
            MapLight.
    """

    name: str
    group: str
    metric: str
    molecules: int
    log_target: bool = False

    @property
    def task_type(self) -> str:
        """The type of its target: "regression" or "binary"."""
        return TASK_TYPES[self.metric]


_TASKS = (
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
    Task("CHEMBL1862_Ki", MOLECULEACE, "rmse", 633),
    Task("CHEMBL2034_Ki", MOLECULEACE, "rmse", 598),
    Task("CHEMBL2047_EC50", MOLECULEACE, "rmse", 503),
    Task("CHEMBL2147_Ki", MOLECULEACE, "rmse", 1162),
    Task("CHEMBL214_Ki", MOLECULEACE, "rmse", 2651),
    Task("CHEMBL219_Ki", MOLECULEACE, "rmse", 1491),
    Task("CHEMBL228_Ki", MOLECULEACE, "rmse", 1362),
    Task("CHEMBL233_Ki", MOLECULEACE, "rmse", 2512),
    Task("CHEMBL234_Ki", MOLECULEACE, "rmse", 2924),
    Task("CHEMBL236_Ki", MOLECULEACE, "rmse", 2077),
    Task("CHEMBL237_EC50", MOLECULEACE, "rmse", 762),
    Task("CHEMBL238_Ki", MOLECULEACE, "rmse", 839),
    Task("CHEMBL239_EC50", MOLECULEACE, "rmse", 1374),
    Task("CHEMBL262_Ki", MOLECULEACE, "rmse", 683),
    Task("CHEMBL264_Ki", MOLECULEACE, "rmse", 2288),
    Task("CHEMBL287_Ki", MOLECULEACE, "rmse", 1061),
    Task("CHEMBL2971_Ki", MOLECULEACE, "rmse", 779),
    Task("CHEMBL4005_Ki", MOLECULEACE, "rmse", 767),
    Task("CHEMBL4203_Ki", MOLECULEACE, "rmse", 582),
    Task("CHEMBL4792_Ki", MOLECULEACE, "rmse", 1174),
)
TASKS = {task.name: task for task in _TASKS}
"""All tasks by name, in the order of the published tables."""


def tasks_of(group: str) -> list[Task]:
    """The tasks of a group."""
    return [task for task in TASKS.values() if task.group == group]


@dataclass(frozen=True)
class TaskData:
    """The data of a task that a training may use.

    Attributes:
        smiles: SMILES of the n labeled molecules, in the order of the table.
        y: (n,) their labels.
        test_smiles: SMILES of all test molecules, in the order of the table.
        unreadable: the number of labeled rows that RDKit cannot read; they are not in `smiles`.
    """

    smiles: tuple[str, ...]
    y: np.ndarray
    test_smiles: tuple[str, ...]
    unreadable: int = 0


@cache
def is_readable(smiles: str) -> bool:
    """Whether RDKit can read the SMILES."""
    try:
        return bool(canonical_smiles(read_smiles(smiles)))
    except MolattnError:
        return False


@cache
def read_task(data: Path, name: str) -> TaskData:
    """Read the labeled molecules of a task, and the test molecules without their labels.

    Args:
        data: the folder with tdc/ and moleculeace/.
        name: the task.

    Raises:
        InputError: there is no such table.
    """
    if TASKS[name].group == TDC:
        labeled = [(row["Drug"], row["Y"]) for row in read_table(data / TDC / name / "train_val.csv")]
        test_smiles = tuple(row["Drug"] for row in read_table(data / TDC / name / "test.csv"))
    else:
        rows = read_table(data / MOLECULEACE / f"{name}.csv")
        labeled = [(row["smiles"], row[MOLECULEACE_LABEL]) for row in rows if row["split"] == "train"]
        test_smiles = tuple(row["smiles"] for row in rows if row["split"] == "test")
    readable = [(smiles, float(y)) for smiles, y in labeled if is_readable(smiles)]
    y = np.array([value for _, value in readable])
    return TaskData(tuple(smiles for smiles, _ in readable), y, test_smiles, len(labeled) - len(readable))


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table of a task.

    Raises:
        InputError: there is no such table.
    """
    if not path.is_file():
        raise InputError(f"there is no table {path}: the folder of the data must have tdc/TASK and moleculeace/")
    return read_rows(path)


def protocol_split(task: Task, smiles: Sequence[str], seed: int) -> np.ndarray:
    """(n,) train or val: by scaffold for TDC; a random tenth of the molecules for MoleculeACE.

    MoleculeACE has a fixed test split and no validation split.
    """
    if task.group == TDC:
        return tdc_scaffold_split(smiles, seed)
    return random_split([canonical_smiles(read_smiles(text)) for text in smiles], MOLECULEACE_SIZES, seed)
