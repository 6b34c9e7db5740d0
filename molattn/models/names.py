"""The names of tasks and of transforms of targets. Without imports, so that help texts are printed quickly."""

ATOM_PREFIX = "atom-"
"""The prefix of the names of atom-level tasks."""

TASK_KINDS = ("regression", "binary", "multiclass")
TASK_TYPES = (*TASK_KINDS, *(f"{ATOM_PREFIX}{kind}" for kind in TASK_KINDS))
"""The choices of `--task-type`."""

LOG10, LOG1P, NEG_LOG10_MOLAR, RANK = "log10", "log1p", "neg-log10-molar", "rank"
TRANSFORMS = (LOG10, LOG1P, NEG_LOG10_MOLAR, RANK)
"""The transforms of targets."""

AUTO_TRANSFORM, NO_TRANSFORM = "auto", "none"
TRANSFORM_CHOICES = (AUTO_TRANSFORM, NO_TRANSFORM, *TRANSFORMS)
"""The choices of `--target-transform`: the transform that the training targets suggest, none, or one of these."""
