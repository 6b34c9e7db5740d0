"""The base class of the two estimators: parameters, training and pickling."""

import numbers
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from inspect import Parameter, Signature, signature
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state

# scikit-learn recommends the private function to authors of estimators.
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import check_is_fitted

from molattn._train import PrintReporter, split_names
from molattn.data.tables.cells import parse_required_numbers
from molattn.data.tables.columns import format_names
from molattn.errors import MolattnError, unknown_choice
from molattn.inference import Predictor, load
from molattn.sklearn.validation import MoleculeInput, validate_X
from molattn.training.options import EstimatorOptions, describe_settings
from molattn.training.run_config import resolve

if TYPE_CHECKING:
    from molattn.training.callbacks import Callback
    from molattn.training.loggers import Logger

# A model in a pickle: the content of each file of its folder, by file name.
_Files = dict[str, bytes]

SETTINGS = tuple(EstimatorOptions.__annotations__)
"""The settings of `molattn train` that are parameters of the estimators."""

PARAMETERS = """
Args:
    smiles_column: the SMILES column of an X with several columns: its name, or its index from 0. By default found by
        its name in a data frame, and the first column of an array.
    descriptor_columns: columns of extra descriptors, by name or index; standardized with the training molecules.
        Missing values are not supported: impute them beforehand, for example in a `ColumnTransformer`.
    validation_fraction: share of the molecules of `fit` that is held out from training, by `split`, to select the best
        epoch.
    random_state: an integer for reproducible models; a `RandomState`; or None for a different model each time.
    settings: any other setting of `molattn train --set`, as "section.key=value".
    warm_start: whether `fit` continues from the weights of the call of `fit` before it, with its scaling of targets and
        descriptors; the targets, classes, descriptors and settings of the model must be the same, except for its
        dropout.
    verbose: whether `fit` reports its progress on standard error.
    callbacks: instances of `molattn.training.callbacks.Callback`, which a clone copies, or names that plugins define.
    logger: where `fit` logs settings and metrics: "csv", "tensorboard", "mlflow", "wandb", a
        `molattn.training.loggers.Logger`, which a clone copies, or a list of these. Each call of `fit` has a new folder
        in `logs`, of the working directory.

    All others are settings of `molattn train`; None is the default of each, that of the preset or base model if there
    is one.

    preset: a published model, one of `molattn presets`.
    model: the kind of the model, "graph" or "smiles-transformer".
SETTINGS

Attributes:
    predictor_: the `molattn.Predictor`, with `.attention(smiles)`, `.embed(smiles)` and `.save(folder)`.
    history_: losses and the validation metric, a dictionary for each epoch.
    best_epoch_: the epoch, from 1, whose weights the model has.
    n_outputs_: number of targets.
    n_features_in_: number of columns of X; 1 for a list of SMILES.
    feature_names_in_: names of the columns, if they are strings and columns are selected.
""".replace("SETTINGS", indent(describe_settings(SETTINGS), "    "))


class MolAttention(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The base class of the two estimators, which are transformers to embeddings too.

    A pickle holds the model as the bytes of its files, not as objects.

    scikit-learn reads the names and defaults of the parameters from the signature of `__init__`, which therefore lists
    every setting.
    """

    num_workers: int | None

    def __init__(
        self,
        *,
        smiles_column: str | int | None = None,
        descriptor_columns: Sequence[str | int] | None = None,
        validation_fraction: float = 0.1,
        random_state: Any = 0,
        settings: Sequence[str] = (),
        warm_start: bool = False,
        verbose: bool = False,
        callbacks: "Sequence[str | Callback] | None" = None,
        logger: "str | Logger | Sequence[str | Logger] | None" = None,
        **options: Unpack[EstimatorOptions],
    ):
        self.smiles_column = smiles_column
        self.descriptor_columns = descriptor_columns
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.settings = settings
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks
        self.logger = logger
        if unknown := [name for name in options if name not in SETTINGS]:
            raise TypeError(unknown_choice(f"parameter of {type(self).__name__}", unknown[0], SETTINGS))
        for name in SETTINGS:
            setattr(self, name, options.get(name))

    def _molecules(self, X: Any) -> MoleculeInput:
        return validate_X(X, self.smiles_column, self.descriptor_columns)

    def _fit(
        self,
        molecules: MoleculeInput,
        targets: np.ndarray,
        names: list[str],
        kind: str,
        classes: tuple[tuple[str, ...], ...],
        sample_weight: Any,
        y_is_1d: bool,
        validation: tuple[MoleculeInput, np.ndarray] | None = None,
    ) -> Self:
        """Fit to targets, (n, T), NaN where missing; `kind` is the kind of the task, `y_is_1d` whether y was (n,).

        `validation` has the molecules and targets, (m, T), that choose the epoch; None for a share of the others.
        """
        smiles, descriptors = molecules.smiles, _descriptor_array(molecules, "X")
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, smiles, dtype=np.float64, ensure_non_negative=True)
            if not weights.any():
                raise ValueError("the sample weights are all zero: there is nothing to learn")
        if validation is not None:
            held, held_targets = validation
            smiles, targets = [*smiles, *held.smiles], np.concatenate([targets, held_targets])
            held_descriptors = _descriptor_array(held, "X of eval_set")
            if descriptors is not None and held_descriptors is not None:
                descriptors = np.concatenate([descriptors, held_descriptors])
            if weights is not None:
                weights = np.concatenate([weights, np.ones(len(held.smiles))])
        elif len(smiles) == 1:
            raise ValueError("n_samples=1: one molecule can train or validate, not both; give two or more")
        num_validation = 0 if validation is None else len(validation[0].smiles)
        previous = self.predictor_._artifact if self.warm_start and hasattr(self, "predictor_") else None
        # Imported here because predictions do not need the training modules.
        from molattn.training.task_inference import resolve_task
        from molattn.training.train_arrays import train_arrays

        with as_value_error():
            config = resolve(None, self._train_options(molecules.descriptor_names), self.settings)
            task, _ = resolve_task(kind, config.training.loss, targets, names, classes)
            reporter = PrintReporter(not self.verbose)
            trained = train_arrays(
                config,
                smiles,
                targets,
                task,
                names,
                reporter,
                weights,
                descriptors,
                split_names(self.callbacks)[1],
                split_names(self.logger)[1],
                num_validation,
                previous,
            )
        self._y_is_1d = y_is_1d
        self.predictor_ = Predictor(trained.artifact)
        self.history_ = [asdict(record) for record in trained.history]
        self.best_epoch_ = trained.best_epoch
        self.n_features_in_, self.n_outputs_ = molecules.num_columns, targets.shape[1]
        if molecules.feature_names is not None:
            self.feature_names_in_ = molecules.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit
        return self

    def _check_columns(self, molecules: MoleculeInput) -> None:
        """Check that columns that are selected by their indices are those of `fit`.

        Raises:
            ValueError: other descriptors than in `fit`, or another number of columns, if these have no names.
        """
        if molecules.feature_names is None:
            if molecules.descriptors is not None and molecules.num_columns != self.n_features_in_:
                raise ValueError(f"X has {molecules.num_columns} columns, and had {self.n_features_in_} in fit")
        elif hasattr(self, "feature_names_in_") and molecules.descriptor_names != self.predictor_.descriptors:
            now, before = format_names(molecules.descriptor_names), format_names(self.predictor_.descriptors)
            raise ValueError(f"the descriptors of X are {now}, and were {before} in fit: select columns by their names")

    def _train_options(self, descriptors: tuple[str, ...]) -> dict[str, Any]:
        """The settings by their names in `molattn.train`."""
        options = self.get_params(deep=False)
        for name in ("settings", "warm_start", "verbose", "smiles_column"):
            del options[name]
        options["callbacks"], options["logger"] = split_names(self.callbacks)[0], split_names(self.logger)[0]
        options["descriptor_columns"] = descriptors
        options["seed"] = _seed(options.pop("random_state"))
        share = options.pop("validation_fraction")
        if not (isinstance(share, float | np.floating) and 0 < share < 1):
            raise ValueError(f"validation_fraction is above 0 and below 1, not {share!r}")
        options["split_sizes"] = (1 - float(share), float(share), 0.0)
        # Parameter grids that are numpy arrays give numpy scalars.
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}

    def transform(self, X: Any) -> np.ndarray:
        """The learned embeddings of n molecules, (n, d), as a step of a `Pipeline`; see `molattn.Predictor.embed`.

        Args:
            X: as for `fit`.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; descriptors that are missing; no SMILES.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
            NotFittedError: before `fit`.
        """
        return self._call_predictor("embed", X)

    @property
    def _n_features_out(self) -> int:
        """The number of features of `transform`, which scikit-learn names."""
        return self.predictor_.embedding_dim

    def _call_predictor(self, method: str, X: Any, **kwargs: Any) -> Any:
        """The result of a method of the predictor for the molecules of X.

        Raises:
            ValueError: SMILES that cannot be read, or descriptors that are missing; the message names their rows.
        """
        check_is_fitted(self)
        molecules = self._molecules(X)
        self._check_columns(molecules)
        with as_value_error():
            return getattr(self.predictor_, method)(
                molecules.smiles,
                num_workers=self.num_workers or 0,
                on_error="raise",
                descriptors=molecules.descriptors,
                **kwargs,
            )

    def _restore_shape(self, predictions: np.ndarray) -> np.ndarray:
        """A result of the predictor in the shape that y had in `fit`: (n,) or (n, T)."""
        predictions = predictions[:, None] if self.n_outputs_ == 1 else predictions
        return predictions[:, 0] if self._y_is_1d else predictions

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = self.smiles_column is not None or bool(
            self.descriptor_columns is not None and len(self.descriptor_columns)
        )
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # pyright: ignore
        if "predictor_" in state:
            state["predictor_"] = _to_files(state["predictor_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "predictor_" in state:
            state["predictor_"] = _from_files(state["predictor_"])
        super().__setstate__(state)


# The signature lists every setting by its name, in place of `**options`.
_PARAMETERS = [p for p in signature(MolAttention.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD]
_PARAMETERS += [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in SETTINGS]
MolAttention.__init__.__signature__ = Signature(_PARAMETERS)  # pyright: ignore[reportFunctionMemberAccess]


def _descriptor_array(molecules: MoleculeInput, where: str) -> np.ndarray | None:
    """The descriptors, (n, k); None if there are none.

    Raises:
        ValueError: a cell without a finite number, by its row and column.
    """
    if molecules.descriptors is None:
        return None
    numbers = []
    for row, cells in enumerate(molecules.descriptors):
        row_numbers, reason = parse_required_numbers(cells, molecules.descriptor_names)
        if reason:
            raise ValueError(f"row {row} (from 0) of {where}: {reason}")
        numbers.append(row_numbers)
    return np.array(numbers)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, numbers.Integral):
        if abs(int(random_state)) >= 2**63:
            raise ValueError(f"random_state has to fit into 64 bits, {random_state} does not")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _to_files(predictor: Predictor) -> _Files:
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _from_files(files: _Files) -> Predictor:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        return load(folder)


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn the errors of molattn into ValueError, which scikit-learn raises for invalid input."""
    try:
        yield
    except MolattnError as error:
        raise ValueError(str(error)) from error
