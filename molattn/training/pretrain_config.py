"""The settings of a pretraining."""

import shlex
from dataclasses import dataclass, field
from typing import Any

import tomli_w

from molattn.errors import UsageError
from molattn.training.bases import NO_BASE
from molattn.training.metrics import VAL_LOSS
from molattn.training.run_config import RunConfig, check_config
from molattn.training.unlabelled import NCI_MOLECULES, check_molecules

PRETRAINING: dict[str, Any] = {"epochs": 50, "batch_size": 64, "learning_rate": 2e-3}
"""Default settings of a pretraining, in the section `training`, where they differ from those of a training."""
_TABLE_SETTINGS = ("smiles_column", "encoding", "no_header_row", "sheet", "decimal", "thousands")
"""The settings in the section `data` that only apply to a table."""


@dataclass(frozen=True)
class PretrainConfig:
    """The settings of a pretraining.

    Attributes:
        molecules: the path of a table, or `NCI_MOLECULES`.
        max_molecules: the number of rows to sample at random from a larger table; 0 for all.
        grow: the number of molecules to generate from them, see `molattn.chem.grow_molecules`.
        exclude: paths of tables with molecules to exclude, in addition to those for evaluation.
        masked_atoms: the fraction of atoms to mask and predict; 0 for none.
        masked_weight: of the loss of masked atoms, relative to that of the descriptors.
        run: the settings of the model, its training, and smiles_column, add_hs, max_atoms and standardize of the data.
    """

    molecules: str = NCI_MOLECULES
    max_molecules: int = 0
    grow: int = 0
    exclude: tuple[str, ...] = ()
    masked_atoms: float = 0.15
    masked_weight: float = 1.0
    run: RunConfig = field(default_factory=RunConfig)

    def command(self) -> str:
        """The command line with these settings, without the output folder."""
        words = ["molattn", "pretrain", *([] if self.molecules == NCI_MOLECULES else [self.molecules])]
        words += ["--max-molecules", str(self.max_molecules)] if self.max_molecules else []
        words += ["--grow", str(self.grow)] if self.grow else []
        words += [word for path in self.exclude for word in ("--exclude", path)]
        default = PretrainConfig()
        if self.masked_atoms != default.masked_atoms:
            words += ["--masked-atoms", str(self.masked_atoms)]
        if self.masked_weight != default.masked_weight:
            words += ["--masked-weight", str(self.masked_weight)]
        plain = RunConfig().updated({"training": {**PRETRAINING, "base": NO_BASE}}, "pretraining").to_dict()
        for section, values in self.run.to_dict().items():
            for name, value in values.items():
                if value != plain[section].get(name) and name not in ("num_workers", "threads"):
                    words += ["--set", f"{section}.{name}={tomli_w.dumps({'v': value})[4:].strip()}"]
        return shlex.join(words)


def check_pretraining(config: PretrainConfig) -> None:
    """Raise UsageError for settings that are out of range, or that a base model does not have."""
    check_config(config.run)
    data = config.run.data
    check_molecules(config.molecules)
    given = [f"data.{name}" for name in _TABLE_SETTINGS if getattr(data, name)]
    if given and config.molecules == NCI_MOLECULES:
        raise UsageError(f"{', '.join(given)} need{'s' if len(given) == 1 else ''} a table of molecules")
    if config.max_molecules < 0 or config.grow < 0:
        raise UsageError("a setting is out of range: max_molecules and grow are 0 or more")
    if not 0 <= config.masked_atoms < 1:
        raise UsageError("a setting is out of range: masked_atoms is at least 0 and below 1")
    if not config.masked_weight > 0:
        raise UsageError("a setting is out of range: masked_weight is above 0")
    if data.conformers or data.standardize or data.descriptor_columns or data.molecule_featurizers:
        raise UsageError(
            "a base model is trained on molecules as they are: leave out conformers, standardize and descriptors"
        )
    training = config.run.training
    if training.logger or training.task_weights:
        raise UsageError("a pretraining has no loggers and no weights of targets: leave out logger and task_weights")
    if training.auxiliary or training.loss or training.metrics or training.tracking_metric != VAL_LOSS:
        raise UsageError("a base model is trained on descriptors: leave out auxiliary targets, losses and metrics")
