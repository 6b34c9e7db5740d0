"""`Predictor`, and `load`, which loads one from a run folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from molattn.chem import Progress
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.errors import InputError, UsageError, describe_bad_smiles, unknown_choice
from molattn.explain.faithfulness_file import FILE as FAITHFULNESS_FILE
from molattn.explain.faithfulness_file import read_summaries
from molattn.hub.locate import errors_name, locate_model
from molattn.inference.molecules import as_smiles
from molattn.inference.options import PredictionOptions
from molattn.inference.prediction_plan import PredictionPlan
from molattn.inference.row_counts import warn_failed
from molattn.inference.rows import RowPrediction, rows_to_arrays, split_atoms
from molattn.inference.table_predictor import TablePredictor
from molattn.models.artifact_file import load_artifact
from molattn.models.predictions import NONE
from molattn.training.run_status import check_has_model, model_folder

if TYPE_CHECKING:
    import torch

    from molattn.inference.selection import Selection
    from molattn.inference.what_if import WhatIf
    from molattn.training.evaluation import Evaluation


class Predictor(TablePredictor):
    """A trained model that predicts molecules, from SMILES or from tables; `molattn.load` reads it from a run folder.

    Args:
        artifact: the model.
        faithfulness: one-line results of `molattn faithfulness`, by target and method; None for none.
        folder: the folder that the model was loaded from; None for none.
        address: its address on the hub with the commit, hf://user/model@COMMIT; empty for a model of this machine.

    Attributes:
        targets: what it predicts, T names.
        units: T units, empty where unknown.
        extra_columns: M names of its other outputs: the probability of every class, quantiles, standard deviations.
        descriptors: names of the k descriptors that it reads in addition to each molecule; empty for none.
        read_options: how molecules are read, as in training; but if training stops at a molecule without a 3D
            geometry, prediction reports an error for its row.
        folder, address: as the arguments.

    >>> from molattn import MolAttentionRegressor
    >>> smiles = [n * "C" + "O" for n in range(1, 11)]  # methanol to decanol
    >>> boiling_points = [65, 78, 97, 118, 138, 158, 177, 195, 213, 233]  # °C
    >>> model = MolAttentionRegressor(hidden_dim=8, num_layers=1, num_heads=2, epochs=1).fit(smiles, boiling_points)
    >>> predictor = model.predictor_  # or that of a run: molattn.load(folder)
    >>> predictor.predict(["CCO", "c1ccccc1"]).shape
    (2,)
    >>> attention = predictor.attention("CCO")
    >>> attention.labels, attention.weights.shape, bool((abs(attention.weights.sum(-1) - 1) < 1e-5).all())
    (['C0', 'C1', 'O2'], (1, 2, 3, 3), True)
    """

    @property
    def members(self) -> "tuple[Predictor, ...]":
        """A predictor for each model of an ensemble, without its calibration and applicability domain.

        A single model has one member, itself.
        """
        if len(self._artifact.models) == 1:
            return (self,)
        a = replace(self._artifact, other_models=(), uncertainty_method="", calibration=None, domain=None)
        return tuple(Predictor(replace(a, model=model)) for model in self._artifact.models)

    @overload
    def predict(
        self,
        smiles: Any,
        num_workers: int = 0,
        on_error: Literal["nan", "raise"] = "nan",
        descriptors: Any = None,
        return_std: Literal[False] = False,
        uncertainty_method: str = "",
    ) -> Any: ...
    @overload
    def predict(
        self,
        smiles: Any,
        num_workers: int = 0,
        on_error: Literal["nan", "raise"] = "nan",
        descriptors: Any = None,
        *,
        return_std: Literal[True],
        uncertainty_method: str = "",
    ) -> tuple[Any, Any]: ...
    def predict(
        self,
        smiles: Any,
        num_workers: int = 0,
        on_error: Literal["nan", "raise"] = "nan",
        descriptors: Any = None,
        return_std: bool = False,
        uncertainty_method: str = "",
    ) -> Any:
        """The predictions, in the order of `smiles`: numbers in units, or probabilities of the positive class.

        Shapes: (n,) for one target, (n, T) for several; a single string has no first axis. Targets of
        several classes add an axis with the probability of every class, in the order of `task.classes`.

        A model that was trained with descriptors needs those of every SMILES: (n, k) numbers, in the order of
        `self.descriptors`, or a data frame that has their columns; for a single string its k numbers.

        For atom-level targets the result is a list of arrays, one for each SMILES: (atoms,) for one target, (atoms, T)
        for several, the atoms in the order of the SMILES, followed by the hydrogens that training added.

        The result for a SMILES that cannot be read is NaN, or an empty array of atoms. A `MolattnWarning` reports how
        many there are, with the first reason; `predict_rows` gives all. Another warning reports molecules with path
        lengths instead of a 3D geometry.

        With `return_std` the result is a pair: the predictions and their standard deviations, in the same unit: see
        `molattn.models.uncertainty.predict_with_uncertainty`. For classification it is the standard deviation of the
        probability of the positive, or the predicted, class, (n,) or (n, T).

        Args:
            smiles: a SMILES or an RDKit molecule; or many of them: a list, an array, a Series, a data frame with a
                column of SMILES.
            descriptors: see above; those of a data frame of molecules are taken from its columns by default.
            num_workers: processes that read molecules; 0 to read them in this process.
            on_error: "nan", or "raise" to raise InputError for SMILES that cannot be read.
            return_std: whether to return standard deviations as well.
            uncertainty_method: how standard deviations are computed, such as "dropout"; the model's default when empty.

        Raises:
            InputError: SMILES that cannot be read, by their rows, if `on_error` is "raise".
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: another `on_error`; a data frame without a column of SMILES; descriptors that are missing, too
                few, too many or not read by the model; an unknown `uncertainty_method`, or one that the model does not
                support; standard deviations of a model that has none.
        """
        plan = PredictionPlan(self._artifact, PredictionOptions(uncertainty_method=uncertainty_method))
        if return_std and plan.uncertainty == NONE:
            raise UsageError(
                "the model has no standard deviations: train with ensemble_size=5, or with the loss mve, "
                "evidential, quantile or dirichlet, or pass uncertainty_method='dropout'"
            )
        rows, single = self._rows(smiles, num_workers, descriptors, plan.options, on_error)
        groups = [split_atoms(row) for row in rows] if self.task.atom_level else [rows]
        pairs = [rows_to_arrays(self.task, group, len(self.targets), len(plan.columns)) for group in groups]
        warn_failed(rows, "prediction")
        results: list[Any] = [[self._squeeze(pair[k]) for pair in pairs] for k in range(1 + return_std)]
        if not self.task.atom_level:
            results = [result[0] for result in results]
        if single:
            results = [result[0] for result in results]
        return tuple(results) if return_std else results[0]

    def predict_interval(
        self,
        smiles: Any,
        level: float = 0.9,
        num_workers: int = 0,
        descriptors: Any = None,
        calibration_method: str = "",
        on_error: Literal["nan", "raise"] = "nan",
    ) -> tuple[Any, Any]:
        """Lower and upper ends of prediction intervals: (lower, upper), each shaped as predictions.

        The true value is between them with a probability of `level`.

        The intervals are conformal, unless the model was trained with another calibration method: see
        `molattn.models.calibration.prediction_intervals`.

        Args:
            smiles, num_workers, descriptors, on_error: as for `predict`.
            level: above 0 and below 1.
            calibration_method: "conformal-regression", "zscaling" or "isotonic"; "none" for the model's own,
                uncalibrated ones; the model's default when empty.

        Raises:
            InputError: SMILES that cannot be read, by their rows, if `on_error` is "raise".
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: a model of classes or of atoms; a model without calibration, unless `calibration_method` is
                "none" and it has standard deviations; too few calibration molecules for the level, or an invalid level
                or method; and as `predict`.
        """
        if self.task.kind != "regression":
            raise UsageError("intervals apply only to regression, and the model predicts classes: use predict_set")
        options = PredictionOptions(level=level, calibration_method=calibration_method)
        rows, single = self._rows(smiles, num_workers, descriptors, options, on_error)
        ends = np.full((len(rows), len(self.targets), 2), np.nan)
        for i, row in enumerate(rows):
            if row.values is not None:
                ends[i] = np.reshape(row.extra_values[len(self.extra_columns) :], (-1, 2))
        warn_failed(rows, "prediction")
        lower, upper = (self._squeeze(ends[..., k]) for k in range(2))
        return (lower[0], upper[0]) if single else (lower, upper)

    def predict_set(
        self,
        smiles: Any,
        level: float = 0.9,
        num_workers: int = 0,
        descriptors: Any = None,
        calibration_method: str = "",
        on_error: Literal["nan", "raise"] = "nan",
    ) -> Any:
        """Prediction sets: a tuple of class names for each SMILES, the true one among them with probability `level`.

        For several targets a tuple of such tuples; None for a SMILES that cannot be read. See
        `molattn.models.calibration.prediction_sets`.

        Args:
            smiles, num_workers, descriptors, on_error: as for `predict`.
            level: above 0 and below 1.
            calibration_method: "conformal-multiclass", "conformal-adaptive" or "isotonic"; "none" for sets from the
                uncalibrated probabilities; the model's default when empty.

        Raises:
            InputError: SMILES that cannot be read, by their rows, if `on_error` is "raise".
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: a model of numbers or of atoms; a model without calibration, unless `calibration_method` is
                "none"; too few calibration molecules for the level, or an invalid level or method; and as `predict`.
        """
        if self.task.kind == "regression":
            raise UsageError("sets apply only to classification, and the model predicts numbers: use predict_interval")
        options = PredictionOptions(level=level, calibration_method=calibration_method)
        rows, single = self._rows(smiles, num_workers, descriptors, options, on_error)
        several = len(self.targets) > 1
        first = len(self.extra_columns)
        found = [
            None if row.values is None else (row.extra_values[first:] if several else row.extra_values[first])
            for row in rows
        ]
        warn_failed(rows, "prediction")
        return found[0] if single else found

    def _rows(
        self,
        smiles: Any,
        num_workers: int,
        descriptors: Any,
        options: PredictionOptions,
        on_error: str,
    ) -> tuple[list[RowPrediction], bool]:
        """The predictions of molecules, and whether `smiles` was a single one."""
        _check_on_error(on_error)
        molecules = as_smiles(smiles, atom_order=self.task.atom_level)
        z = self._descriptors_of(molecules, descriptors)
        rows = list(self.predict_rows(molecules.smiles, num_workers, None, z, options))
        if on_error == "raise":
            _raise_if_failed(rows)
        return rows, molecules.single

    def _squeeze(self, values: np.ndarray) -> np.ndarray:
        """`values` without the axis of targets if there is only one target."""
        return values[:, 0] if len(self.targets) == 1 else values

    def embed(
        self,
        smiles: Any,
        num_workers: int = 0,
        descriptors: Any = None,
        on_error: Literal["nan", "raise"] = "nan",
    ) -> np.ndarray:
        """Learned embeddings, in the order of `smiles`: the input of the model's final linear layer.

        Shapes: (n, d); (d,) for a single molecule. The descriptors are the last numbers of an embedding, standardized.
        Of an ensemble, they are those of its first model, `members[0]`.

        The result for a SMILES that cannot be read is NaN. A `MolattnWarning` reports how many there are, with the
        first reason; `embed_rows` gives all.

        Args:
            smiles, num_workers, descriptors, on_error: as for `predict`.

        Raises:
            InputError: SMILES that cannot be read, by their rows, if `on_error` is "raise".
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: a model of atoms, which has no embedding of a molecule; another `on_error`; and as `predict`.
        """
        _check_on_error(on_error)
        missing = (np.nan,) * self.embedding_dim
        molecules = as_smiles(smiles)
        z = self._descriptors_of(molecules, descriptors)
        rows = list(self.embed_rows(molecules.smiles, num_workers, None, z))
        if on_error == "raise":
            _raise_if_failed(rows)
        values = np.array([missing if r.values is None else r.values for r in rows]).reshape(-1, self.embedding_dim)
        warn_failed(rows, "embedding")
        return values[0] if molecules.single else values

    def select(
        self,
        smiles: Any,
        size: int,
        *,
        strategy: str = "uncertainty",
        target: str | None = None,
        goal: str = "maximize",
        best: float | None = None,
        uncertainty_method: str = "",
        num_workers: int = 0,
        descriptors: Any = None,
        seed: int = 0,
    ) -> "Selection":
        """Select the molecules of a pool to measure next (active learning).

        The strategies:

        - "uncertainty": the largest standard deviation; for classes, the largest entropy of their probabilities.
        - "expected-improvement": the largest expected improvement on `best`, (mean - best) Phi(z) + std phi(z) with
          z = (mean - best) / std.
        - "diverse": RDKit's MaxMin: each next molecule has the largest Tanimoto distance to the nearest training or
          selected molecule. The model's predictions play no part.

        Molecules that cannot be read are not selected; a `MolattnWarning` reports how many there are, and the first.

        Args:
            smiles: the pool, as for `predict`.
            size: how many molecules are selected; all of a smaller pool.
            strategy: see above.
            target: the target of the first two strategies; required if the model has several.
            goal: "maximize" or "minimize", for "expected-improvement".
            best: the best value measured so far, in the unit of the target, for "expected-improvement".
            uncertainty_method, num_workers, descriptors: as for `predict`.
            seed: of the first molecule of "diverse", if the model keeps no training molecules.

        Returns:
            A `Selection`: `.rows`, indices in the pool, the first choice first; `.scores`; `.predictions`.

        Raises:
            UsageError: a size below 1; an unknown strategy, target or goal; a `best` that is missing or not needed; a
                model without standard deviations, or an atom-level one.

        Example::

            predictor = molattn.load("runs/esol")  # trained with ensemble_size=5
            selection = predictor.select(pool["smiles"], 96)
            pool.iloc[selection.rows]
        """
        # Imported here, because most predictions need no fingerprints.
        from molattn.inference.selection import SelectionOptions, select

        options = SelectionOptions(size, strategy, target, goal, best, uncertainty_method, seed)
        molecules = as_smiles(smiles)
        z = self._descriptors_of(molecules, descriptors)
        needed = options.prediction_options(self._artifact)
        rows = list(self.predict_rows(molecules.smiles, num_workers, None, z, needed))
        warn_failed(rows, "prediction")
        return select(self._artifact, rows, options)

    def what_if(
        self,
        smiles: Any,
        *,
        target: str | None = None,
        goal: str = "maximize",
        level: float = 0.9,
        min_pairs: int = 3,
        data: str | Path | None = None,
        smiles_column: str | None = None,
        target_column: str = "",
        table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
        num_workers: int = 0,
    ) -> "WhatIf":
        """The variants of a molecule, each with its predicted change and the interval of that change.

        Variants are those of `molattn.chem.substituent_scan`, and the replacements of substituents that are found in
        the matched pairs of the run's molecules. The interval of a change is conformal, from the errors of predicted
        changes in matched pairs that were held out of the training: see `molattn.inference.measured_pairs`. It says
        nothing about molecules unlike these: `in_domain` marks variants unlike the training set.

        Args:
            smiles: the parent, a SMILES or an RDKit molecule.
            target: its property; required if the model has several.
            goal: "maximize" or "minimize": which change is the best.
            level: the probability that a measured change is within its interval.
            min_pairs: in how many matched pairs a replacement must have been measured to be tried.
            data: a table of measured molecules, instead of the `predictions.csv` of the run; see
                `molattn.inference.measured_tables.data_table`.
            smiles_column, target_column: its columns; found by their names when empty.
            table_options: encoding, header and sheet of the table, and the number format of the target.
            num_workers: processes that read molecules; 0 to read them in this process.

        Returns:
            A `WhatIf`: `.rows`, the best first; `.best(10)`, `.atom_changes()`, `.agreement`, `.to_frame()`.

        Raises:
            SmilesError: the molecule cannot be read.
            InputError: it has no prediction, or the table cannot be read.
            TypeError: `smiles` is not one molecule.
            UsageError: a model of classes or atoms, or with descriptors of one's own; an unknown target or goal;
                nothing is known about the uncertainty of a change, or too little for the level.

        Example::

            found = molattn.load("runs/esol").what_if("CC(=O)Oc1ccccc1C(=O)O")
            for row in found.best(5):
                print(row.variant.smiles, row.variant.name, row.change, (row.lower, row.upper), row.in_domain)
        """
        # Imported here, because most predictions need neither matched pairs nor alerts.
        from molattn.inference.measured_tables import data_table, table_of_run
        from molattn.inference.predict_variants import what_if
        from molattn.inference.what_if import WhatIfOptions

        options = WhatIfOptions(target, goal, level, min_pairs)
        name = options.target_of(self)
        molecules = as_smiles(smiles, atom_order=True)
        if not molecules.single:
            raise TypeError("what_if takes one molecule, a SMILES or an RDKit molecule")
        if data is None:
            table = table_of_run(self, name)
        else:
            table = data_table(self, data, name, smiles_column, target_column, table_options, num_workers)
        (parent,) = molecules.smiles
        return what_if(self, str(parent), options, table, num_workers=num_workers)

    def evaluate(
        self,
        table: str | Path,
        *,
        smiles_column: str = "",
        target_columns: Sequence[str] = (),
        metrics: Sequence[str] = (),
        num_workers: int = 0,
        progress: Progress | None = None,
        table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
    ) -> "Evaluation":
        """The metrics on a table that has the columns of the targets: what `molattn evaluate` does.

        Args:
            table: its path.
            smiles_column: found by its name when empty.
            target_columns: the columns of the labels, in the order of `targets`; by default of the same names.
            metrics: such as "rmse" or "auroc"; the task's own when empty.
            num_workers: as for `predict`.
            progress: called with the number of molecules read so far, and the number of all molecules.
            table_options: encoding, header and sheet of the table, and the number format of the targets.

        Returns:
            An `Evaluation`: `.metrics`, `.predictions`, `.targets` and `.rejected`; and `.unseen_metrics`, of the
            molecules that, by the run's `splits.csv`, were not used to train, select or calibrate the model.

        Raises:
            UsageError: a column or metric that does not exist, or another number of columns than of targets.
            InputError: a table that cannot be read, labels that do not match the task, or no row that can be used.
            MissingExtra: openpyxl is not installed, for a table of .xlsx.
        """
        # Imported here: prediction does not need what the training modules import.
        from molattn.training.evaluation import evaluate, seen_smiles

        return evaluate(
            self._artifact,
            table,
            smiles_column=smiles_column,
            target_columns=target_columns,
            metrics=tuple(metrics),
            num_workers=num_workers,
            read_options=self.read_options,
            seen=() if self.folder is None else seen_smiles(self.folder.parent),
            progress=progress,
            table_options=table_options,
        )

    def __repr__(self) -> str:
        a = self._artifact
        count = f", ensemble of {len(a.models)}" if len(a.models) > 1 else ""
        return f"Predictor(targets={self.targets!r}, model={a.model.config.kind!r}{count})"


def _check_on_error(on_error: str) -> None:
    """Refuse an unknown `on_error` before molecules are predicted."""
    if on_error not in ("nan", "raise"):
        raise UsageError(unknown_choice("on_error", on_error, ("nan", "raise")))


def _raise_if_failed(rows: list[RowPrediction]) -> None:
    """Raise an InputError about the rows without a result, if there are any."""
    if bad := [(i, r.smiles, r.error) for i, r in enumerate(rows) if r.error]:
        raise InputError(describe_bad_smiles(bad, len(rows)))


def load(run: str | Path, device: "str | torch.device" = "cpu", precision: str = "32-true") -> Predictor:
    """Load the predictor of a run folder, of the `model` folder in it, or of a model on the hub.

    Args:
        run: the folder of a run, or one that `Predictor.save` wrote; or the address of a model on the hub:
            hf://user/model, or hf://user/model@revision with a branch, tag or commit. With #sha256= and the SHA-256 of
            a `config.json` at its end, it is that model or none. The files are downloaded into the hub's cache;
            `address` of the predictor has the commit.
        device, precision: see `Predictor.to`.

    Raises:
        InputError: there is no model; it is damaged, of a newer molattn, or needs a plugin that is not installed; the
            run is not finished; the folder holds several runs; or the hub does not respond, refuses access, or has
            another model than the address describes.
        UsageError: a plugin cannot be loaded; an address that is malformed; there is no such device or precision.
        MissingExtra: a model on the hub, and huggingface_hub is not installed.

    >>> import tempfile
    >>> import molattn
    >>> smiles, boiling_points = ["CO", "CCO", "CCCO", "CCCCO"], [65, 78, 97, 118]
    >>> model = molattn.MolAttentionRegressor(hidden_dim=8, num_layers=1, epochs=1).fit(smiles, boiling_points)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.predictor_.save(folder)  # molattn.train writes a folder too
    ...     predictor = molattn.load(folder)
    >>> predictor
    Predictor(targets=('y',), model='graph')
    """
    located = locate_model(run, (FAITHFULNESS_FILE,))
    check_has_model(located.folder)
    folder = model_folder(located.folder)
    with errors_name(located):
        artifact = load_artifact(folder)
    return Predictor(artifact, read_summaries(located.folder, folder), folder, str(located.address or "")).to(
        device, precision
    )
