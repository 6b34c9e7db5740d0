"""The trainings of `arena.py`: each leaves its answers to the test molecules and a record of itself in a folder.

Nothing here can see a label of a test molecule, neither by what it reads nor by what it imports: `arena_seal.py` is
imported by the command that scores, and by nothing else.
"""

import csv
import hashlib
import json
import os
import resource
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from arena_tasks import TASKS, Known, Task, is_readable, known, on_both_sides, sides_of
from contenders import ARENA, Round, molattn
from peers import FOLDER, PEERS
from report import in_words, machine

from molattn.errors import UsageError

PEER_OF = {"catboost": "catboost", "chemprop": "chemprop", "chemprop-rdkit": "chemprop", "attentivefp": "pyg"}


@dataclass(frozen=True)
class Record:
    """What a training says of itself.

    Attributes:
        task, model, seed: which one it is.
        options: of `molattn train`, if it had any.
        train, val, test: molecules.
        unreadable: rows that RDKit refuses, labelled and test ones; the answer to the latter is the mean label.
        both_sides: test molecules whose InChIKey has the first block of a labelled one's.
        seconds: CPU time.
        version, machine: by what and where.
        answers_sha256: of the file of answers.
    """

    task: str
    model: str
    seed: int
    options: str
    train: int
    val: int
    test: int
    unreadable: int
    both_sides: int
    seconds: float
    version: str
    machine: str
    answers_sha256: str


def contender(model: str, options: str = "") -> Callable[[Round], np.ndarray]:
    """Who trains: one of `ARENA`; molattn takes options of `molattn train`.

    Raises:
        UsageError: there is none of that name, or it takes no options.
    """
    if model not in ARENA:
        raise UsageError(f"there is no model {model!r}: choose among {', '.join(ARENA)}")
    if not options:
        return ARENA[model]
    if model != "molattn":
        raise UsageError(f"{model} takes no options: they are those of `molattn train`")
    return partial(molattn, options=shlex.split(options))


def version_of(model: str) -> str:
    """The version of whatever trains: molattn's with the commit, scikit-learn's, or those of the peer's packages."""
    if model in PEER_OF:
        return ", ".join(PEERS[PEER_OF[model]])
    if not model.startswith("molattn"):
        return f"scikit-learn=={version('scikit-learn')}, rdkit=={version('rdkit')}"
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude", "*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    commit = found.stdout.strip() if not found.returncode else ""
    return f"molattn=={version('molattn')}" + (f" ({commit})" if commit else "")


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def answers_of(
    task: Task,
    seed: int,
    given: Known,
    sides: Sequence[str],
    asked: Sequence[str],
    who: Callable[[Round], np.ndarray],
    peers: Path = FOLDER,
) -> tuple[np.ndarray, float]:
    """Train on labelled molecules, and answer others, whose labels the contender does not get.

    Args:
        sides: train or val of each labelled molecule.
        asked: SMILES of the others. One that RDKit refuses is answered by the mean of the labels.

    Returns: (m,) answers, in the order of `asked`, and the seconds of CPU time.

    Raises:
        RuntimeError: it did not answer every molecule with a finite number.
    """
    readable = [i for i, smiles in enumerate(asked) if is_readable(smiles)]
    start = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", "y", "split"])
            writer.writerows(zip(given.smiles, given.y.tolist(), sides, strict=True))
            writer.writerows((asked[i], "", "test") for i in readable)
        found = who(Round(table, task.kind, seed, Path(folder), peers, task.log_target))
    if found.shape != (len(given.smiles) + len(readable),) or not np.isfinite(found).all():
        raise RuntimeError(f"{task.name}: {found.shape} answers for {len(given.smiles) + len(readable)} rows, or NaN")
    answers = np.full(len(asked), given.y.mean())
    answers[readable] = found[len(given.smiles) :]
    return answers, cpu_seconds() - start


def with_tag(model: str, tag: str) -> str:
    """What a model is called in records and results."""
    return f"{model} {tag}" if tag else model


def paths(runs: Path, model: str, task: str, seed: int) -> tuple[Path, Path]:
    """Where a training leaves its answers and its record."""
    stem = runs / model / f"{task}-{seed}"
    return stem.with_suffix(".csv"), stem.with_suffix(".json")


def train(
    data: Path, runs: Path, name: str, model: str, seed: int, options: str = "", tag: str = "", peers: Path = FOLDER
) -> Record:
    """One training of a task by its protocol; its record is written last, so that a run without one is done again.

    tag: follows the name of the model in its record, to tell runs with options from those without.
    """
    given, who = known(data, name), contender(model, options)
    task, made_by, model = TASKS[name], version_of(model), with_tag(model, tag)
    sides = sides_of(task, given.smiles, seed)
    answers, seconds = answers_of(task, seed, given, sides, given.test, who, peers)
    path, record_path = paths(runs, model, name, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["row,y_pred", *(f"{row},{answer!r}" for row, answer in enumerate(answers.tolist()))]
    _replace(path, "\n".join(lines) + "\n")
    record = Record(
        task=name,
        model=model,
        seed=seed,
        options=options,
        train=int((sides == "train").sum()),
        val=int((sides == "val").sum()),
        test=len(given.test),
        unreadable=given.unreadable + sum(not is_readable(smiles) for smiles in given.test),
        both_sides=on_both_sides(given.smiles, given.test),
        seconds=round(seconds, 1),
        version=made_by,
        machine=in_words(machine()),
        answers_sha256=_sha256(path),
    )
    _replace(record_path, json.dumps(asdict(record), indent=1) + "\n")
    return record


def records(runs: Path) -> list[Record]:
    """The records of the finished trainings in a folder."""
    return [Record(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(runs.glob("*/*.json"))]


def is_finished(runs: Path, model: str, task: str, seed: int) -> bool:
    """Whether there is a record of the training."""
    return paths(runs, model, task, seed)[1].is_file()


def finished(runs: Path) -> Iterator[tuple[Record, np.ndarray]]:
    """The trainings in a folder, by model, task and seed: their records and (m,) answers to the test molecules.

    Raises:
        RuntimeError: a file of answers is not the one that its training wrote.
    """
    for record in records(runs):
        path, record_path = paths(runs, record.model, record.task, record.seed)
        if _sha256(path) != record.answers_sha256:
            raise RuntimeError(f"{path} is not what its training wrote: remove it and {record_path}, and train again")
        with open(path, newline="", encoding="utf-8") as file:
            yield record, np.array([float(row["y_pred"]) for row in csv.DictReader(file)])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _replace(path: Path, text: str) -> None:
    """The file is the old or the whole new one."""
    partial_path = path.with_name(f"{path.name}.{os.getpid()}")
    partial_path.write_text(text, encoding="utf-8")
    partial_path.replace(path)
