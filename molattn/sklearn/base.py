"""The base class of the two estimators: parameters, training and pickling."""

import numbers
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

# scikit-learn recommends the private function to authors of estimators.
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import check_is_fitted

from molattn._train import PrintReporter
from molattn.data.tables.columns import parse_required_numbers
from molattn.errors import MolattnError
from molattn.inference import Predictor, load
from molattn.models.config import GraphModelConfig
from molattn.sklearn.validation import MoleculeTable, check_molecules
from molattn.training.config import DataConfig, TrainingConfig, resolve

# A model in a pickle: the contents of the files of its folder, by name.
_Files = dict[str, bytes]

PARAMETERS = """
    Args:
        preset: a published model, one of `molattn presets`; None for the default model.
        model: "graph", or "smiles-transformer" for one that reads the tokens of the SMILES.
        hidden_dim, num_layers, num_heads, dropout, readout: of the model; see `molattn.models.config`. None
            for the value of the preset.
        add_hs: whether hydrogens become atoms of the graph.
        smiles_column: the SMILES column of an X with several columns: its name, or its index from 0. By default found
            by its name in a data frame, and the first column of an array.
        descriptor_columns: columns of extra descriptors, by name or index; standardised with the training molecules.
            Missing values are not supported: impute them beforehand, for example in a `ColumnTransformer`.
        molecule_featurizers: extra descriptors that RDKit computes: "rdkit_few", a dozen of them, or "rdkit_2d", all;
            () for none. None for the default of the base model or of training from scratch.
        standardize: "parent" or "tautomer", the standardization applied to molecules first; None for none.
        loss: {losses}
        ensemble_size: number of models whose predictions are averaged; they differ in their seeds.
        uncertainty_method: how standard deviations are computed, such as "dropout"; None for that of the ensemble or
            the loss.
        calibration_size: share of the molecules of `fit` that is held out from training for calibration.
        calibration_method: how predictions are calibrated, such as "zscaling"; None for conformal intervals, or sets of
            classes.
        base: the base model to start from, by name ("nci") or folder; "none" for none. "auto" and None use nci if
            it is compatible.
        epochs, learning_rate: of the training; None for the default of fine-tuning or of training from scratch.
        batch_size, weight_decay, patience: of the training; see `TrainingConfig`.
        validation_fraction: share of the molecules of `fit` that is held out from training to select the best epoch.
        split: how those are chosen: "random", "scaffold", "stratified", ...; the same molecule is never in both.
        random_state: an integer for reproducible models; a `RandomState`; or None for a different model each time.
        accelerator: of `fit`: "cpu", "gpu", or "auto" for a GPU if one is available.
        num_workers: processes that read molecules.
        threads: CPU threads of the training.
        settings: any other setting of `molattn train --set`, as "section.key=value".
        verbose: whether `fit` reports its progress on standard error.

    Attributes:
        predictor_: the `molattn.Predictor`, with `.attention(smiles)`, `.embed(smiles)` and `.save(folder)`.
        history_: losses and the validation metric, a dictionary for each epoch.
        best_epoch_: the epoch, from 0, whose weights the model has.
        n_outputs_: number of targets.
        n_features_in_: number of columns of X; 1 for a list of SMILES.
        feature_names_in_: names of the columns, if they are strings and columns are selected."""


class MolAttention(BaseEstimator):
    """The base class of the two estimators. A pickle holds the model as the bytes of its files, not as objects."""

    def __init__(
        self,
        *,
        preset: str | None = None,
        model: str = "graph",
        hidden_dim: int = GraphModelConfig.hidden_dim,
        num_layers: int | None = None,
        num_heads: int = GraphModelConfig.num_heads,
        dropout: float = GraphModelConfig.dropout,
        readout: str | None = None,
        add_hs: bool = DataConfig.add_hs,
        smiles_column: str | int | None = None,
        descriptor_columns: Sequence[str | int] | None = None,
        molecule_featurizers: Sequence[str] | None = None,
        standardize: str | None = None,
        loss: str | None = None,
        ensemble_size: int = TrainingConfig.ensemble_size,
        uncertainty_method: str | None = None,
        calibration_size: float = DataConfig.calibration_size,
        calibration_method: str | None = None,
        base: str | None = None,
        epochs: int | None = None,
        batch_size: int = TrainingConfig.batch_size,
        learning_rate: float | None = None,
        weight_decay: float = TrainingConfig.weight_decay,
        patience: int = TrainingConfig.patience,
        validation_fraction: float = 0.1,
        split: str = DataConfig.split,
        random_state: Any = TrainingConfig.seed,
        accelerator: str = TrainingConfig.accelerator,
        num_workers: int = TrainingConfig.num_workers,
        threads: int = TrainingConfig.threads,
        settings: Sequence[str] = (),
        verbose: bool = False,
    ):
        self.preset = preset
        self.model = model
        self.hidden_dim = hidden_dim
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.dropout = dropout
        self.readout = readout
        self.add_hs = add_hs
        self.smiles_column = smiles_column
        self.descriptor_columns = descriptor_columns
        self.molecule_featurizers = molecule_featurizers
        self.standardize = standardize
        self.loss = loss
        self.ensemble_size = ensemble_size
        self.uncertainty_method = uncertainty_method
        self.calibration_size = calibration_size
        self.calibration_method = calibration_method
        self.base = base
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.split = split
        self.random_state = random_state
        self.accelerator = accelerator
        self.num_workers = num_workers
        self.threads = threads
        self.settings = settings
        self.verbose = verbose

    def _molecules(self, X: Any) -> MoleculeTable:
        return check_molecules(X, self.smiles_column, self.descriptor_columns)

    def _fit(
        self,
        molecules: MoleculeTable,
        targets: np.ndarray,
        names: list[str],
        kind: str,
        classes: tuple[tuple[str, ...], ...],
        sample_weight: Any,
        one_d: bool,
    ) -> Self:
        """Fit to targets, (n, T), NaN where missing; `kind` is the kind of the task, `one_d` is whether y was (n,)."""
        smiles, descriptors = molecules.smiles, _descriptor_array(molecules)
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, smiles, dtype=np.float64, ensure_non_negative=True)
            if not weights.any():
                raise ValueError("the sample weights are all zero: there is nothing to learn")
        if len(smiles) == 1:
            raise ValueError("n_samples=1: one molecule can train or validate, not both; give two or more")
        # Imported here because predictions do not need the training modules.
        from molattn.training.targets import resolve_task
        from molattn.training.train_arrays import train_arrays

        with as_value_error():
            config = resolve(None, self._options(molecules.names), self.settings)
            task, _ = resolve_task(kind, config.training.loss, targets, names, classes)
            reporter = PrintReporter(not self.verbose)
            trained = train_arrays(config, smiles, targets, task, names, reporter, weights, descriptors)
        self._one_d = one_d
        self.predictor_ = Predictor(trained.artifact)
        self.history_ = [asdict(record) for record in trained.history]
        self.best_epoch_ = trained.best_epoch
        self.n_features_in_, self.n_outputs_ = molecules.columns, targets.shape[1]
        if molecules.feature_names is not None:
            self.feature_names_in_ = molecules.feature_names
        return self

    def _options(self, descriptors: tuple[str, ...]) -> dict[str, Any]:
        """The settings by their names in `molattn.train`."""
        options = self.get_params(deep=False)
        for name in ("settings", "verbose", "smiles_column"):
            del options[name]
        options["descriptor_columns"] = descriptors
        options["seed"] = _seed(options.pop("random_state"))
        share = options.pop("validation_fraction")
        if not (isinstance(share, float | np.floating) and 0 < share < 1):
            raise ValueError(f"validation_fraction is above 0 and below 1, not {share!r}")
        options["split_sizes"] = (1 - float(share), float(share), 0.0)
        # Parameter grids that are numpy arrays give numpy scalars.
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}

    def _predict_array(self, X: Any) -> np.ndarray:
        """The predictions for each SMILES, (n, T) or (n, T, classes).

        Raises:
            ValueError: SMILES that cannot be read, or descriptors that are missing; the message names their rows.
        """
        check_is_fitted(self)
        molecules = self._molecules(X)
        with as_value_error():
            args = molecules.smiles, self.num_workers, "raise", molecules.descriptors
            predictions = np.asarray(self.predictor_.predict(*args))
        return predictions[:, None] if self.n_outputs_ == 1 else predictions

    def _restore_shape(self, predictions: np.ndarray) -> np.ndarray:
        """An output of the predictor in the shape that y had in `fit`: (n,) or (n, T)."""
        predictions = predictions[:, None] if self.n_outputs_ == 1 else predictions
        return predictions[:, 0] if self._one_d else predictions

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = self.smiles_column is not None or bool(self.descriptor_columns)
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


def _descriptor_array(molecules: MoleculeTable) -> np.ndarray | None:
    """The descriptors, (n, k); None if there are none.

    Raises:
        ValueError: a cell without a finite number, by its row and column.
    """
    if molecules.descriptors is None:
        return None
    numbers = []
    for row, cells in enumerate(molecules.descriptors):
        row_numbers, reason = parse_required_numbers(cells, molecules.names)
        if reason:
            raise ValueError(f"row {row} (from 0) of X: {reason}")
        numbers.append(row_numbers)
    return np.array(numbers)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, numbers.Integral):
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
