"""Auxiliary targets of a training: a dozen descriptors of its molecules, learned beside what was measured."""

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from molattn.chem import FEW_DESCRIPTORS
from molattn.errors import UsageError
from molattn.models.base import MoleculeModel
from molattn.training.companions import AuxiliaryTargets
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.descriptor_targets import compute_descriptors, standardize_targets


def with_auxiliary(
    train: LabelledMolecules, config: TrainingConfig, warn: Callable[[str], None] = lambda _: None
) -> LabelledMolecules:
    """The training molecules with `FEW_DESCRIPTORS` beside them, standardised.

    As they are where `config.auxiliary` is 0 or the descriptors are the same for all. Other molecules than those of
    training are not looked at.

    Args:
        train: molecules that have been read.
        config: how much they count.
        warn: told where there is nothing to learn.

    Raises:
        UsageError: they are asked of targets of atoms.
    """
    if not config.auxiliary:
        return train
    if train.offsets is not None:
        raise UsageError("auxiliary targets are of molecules, and these targets of atoms: set training.auxiliary=0")
    # The run has its own limit of atoms, and the molecules are within it.
    smiles = [m.smiles for m in train.molecules]
    values = compute_descriptors(smiles, FEW_DESCRIPTORS, config.num_workers, max_atoms=sys.maxsize)
    targets = standardize_targets(FEW_DESCRIPTORS, values, np.arange(len(values)))
    if not targets.names:
        warn("the auxiliary descriptors are the same for all training molecules: there are none to learn")
        return train
    return replace(train, auxiliary_targets=targets.z)


def companion_of(model: MoleculeModel, train: LabelledMolecules, config: TrainingConfig) -> AuxiliaryTargets | None:
    """What learns the numbers beside the training molecules; None where there are none.

    Args:
        model: before training.
        train: its molecules, from `with_auxiliary`.
        config: how much the numbers count, and the seed of the companion's weights.
    """
    if train.auxiliary_targets is None:
        return None
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return AuxiliaryTargets(model, train.auxiliary_targets.shape[1], config.auxiliary)
