"""Auxiliary targets of a training: a dozen descriptors of its molecules, learned beside what was measured."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from molattn.chem import FEW_DESCRIPTORS
from molattn.errors import UsageError
from molattn.models.base import MoleculeModel
from molattn.training.companions import AuxiliaryTargets
from molattn.training.computed import compute, standardised
from molattn.training.config import TrainingConfig
from molattn.training.labelled import Labelled


def with_auxiliary(
    model: MoleculeModel, train: Labelled, config: TrainingConfig, warn: Callable[[str], None] = lambda _: None
) -> tuple[Labelled, AuxiliaryTargets | None]:
    """The training molecules with `FEW_DESCRIPTORS` beside them, and the companion that learns these.

    As they are, with no companion, where `config.auxiliary` is 0 or the descriptors are the same for all. Other
    molecules than those of training are not looked at.

    Args:
        model: before training.
        train: its molecules.
        config: how much they count, and the seed of the companion's weights.
        warn: told where there is nothing to learn.

    Raises:
        UsageError: they are asked of targets of atoms.
    """
    if not config.auxiliary:
        return train, None
    if model.of_atoms:
        raise UsageError("auxiliary targets are of molecules, and these targets of atoms: set training.auxiliary=0")
    values = compute([m.smiles for m in train.molecules], FEW_DESCRIPTORS, config.num_workers)
    targets = standardised(FEW_DESCRIPTORS, values, np.arange(len(values)))
    if not targets.names:
        warn("the auxiliary descriptors are the same for all training molecules: there are none to learn")
        return train, None
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        companion = AuxiliaryTargets(model, len(targets.names), config.auxiliary)
    return replace(train, beside=targets.z), companion
