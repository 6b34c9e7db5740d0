"""A trained model that answers SMILES."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from molattn.chem import Progress
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.errors import InputError, UsageError, describe_bad_smiles
from molattn.inference.batch_predictor import PLAIN, Asked, Beside, BesideColumn
from molattn.inference.explainer import Explainer, descriptor_rows
from molattn.inference.rows import RowPrediction, Said, all_finite, answered, columns, of_each_atom, warn
from molattn.models.artifact import save_artifact
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.descriptors import DescriptorStream, MoleculeRow
from molattn.models.predict import NOT_FINITE, embed_molecules
from molattn.models.predictions import Predictions
from molattn.models.tasks import Task
from molattn.models.uncertainty import NONE


class Predictor(Explainer):
    """A trained model that answers SMILES.

    Attributes:
        targets: what it predicts, T names.
        units: T units, empty where unknown.
        more: what it says beside them, M names: the probability of every class, quantiles, standard deviations.
        descriptors: the k columns of numbers that it reads beside each molecule; empty for none.
        conformers: how molecules get a 3D geometry, as in training; None for a model without 3D. A row stops nothing
            here: where training was to stop at a molecule without a geometry, prediction reports it as an error.
    """

    @property
    def model(self) -> MoleculeModel:
        """The model itself, a torch module in evaluation mode; its answers are standardised, not in units.

        Of an ensemble, the first; see `members`.
        """
        return self._artifact.model

    @property
    def members(self) -> "tuple[Predictor, ...]":
        """A predictor for each model of an ensemble, without calibration; itself alone where there is no ensemble."""
        if len(self._artifact.models) == 1:
            return (self,)
        a = replace(self._artifact, members=(), uncertainty="", calibration=None, domain=None)
        return tuple(Predictor(replace(a, model=model)) for model in self._artifact.models)

    @property
    def task(self) -> Task:
        """What the targets are: regression, binary or multi-class, of molecules or of atoms."""
        return self._artifact.task

    def predict(
        self,
        smiles: str | Iterable[object],
        num_workers: int = 0,
        on_error: Literal["nan", "raise"] = "nan",
        descriptors: Any = None,
        return_std: bool = False,
        uncertainty_method: str = "",
    ) -> Any:
        """The predictions, in the order of `smiles`: numbers in units, or probabilities of the positive class.

        Shapes: (n,) for one target, (n, T) for several; one string brings its one answer, without the first axis.
        Targets of several classes bring the probability of every class on one more axis, in the order of
        `task.classes`.

        A model that was trained with descriptors needs those of every SMILES: (n, k) numbers, in the order of
        `self.descriptors`, or a data frame that has their columns; for one string its k numbers.

        Where targets are of atoms, a list of arrays comes, one for each SMILES: (atoms,) for one target, (atoms, T) for
        several, the atoms in the order of the SMILES, followed by the hydrogens that training added.

        A SMILES that cannot be read has NaN, or no atoms, and a `MolattnWarning` says which and why. See `rows` for the
        reasons. Another says which molecules have path lengths in the place of a 3D geometry.

        With `return_std` two of these come: the predictions, and how far off they may be, in the same unit: see
        `molattn.models.uncertainty.predict_with_uncertainty`. Of classes it is the standard deviation of the
        probability of 1, or of the class that is answered, (n,) or (n, T).

        Args:
            smiles, descriptors: see above.
            num_workers: processes that read molecules.
            on_error: "nan", or "raise" at the first SMILES that cannot be read.
            return_std: whether standard deviations come, too.
            uncertainty_method: how they are made, such as "dropout"; the model's own way when empty.

        Raises:
            InputError: SMILES that cannot be read, by their rows, where `on_error` is "raise".
            UsageError: another `on_error`; standard deviations of a model that has none.
        """
        if on_error not in ("nan", "raise"):
            raise UsageError(f"on_error is 'nan' or 'raise', not {on_error!r}")
        asked = Asked(self._artifact, Beside(uncertainty_method=uncertainty_method))
        if return_std and asked.uncertainty == NONE:
            raise UsageError(
                "the model has no standard deviations: train with ensemble_size=5, or with the loss mve, "
                "evidential, quantile or dirichlet, or ask for uncertainty_method='dropout'"
            )
        rows, alone = self._rows(smiles, num_workers, descriptors, asked.beside)
        if on_error == "raise" and (bad := [(i, r.smiles, r.error) for i, r in enumerate(rows) if r.error]):
            raise InputError(describe_bad_smiles(bad, len(rows)))
        if self.task.of_atoms:
            both = [self._arrays(of_each_atom(row), len(asked.columns)) for row in rows]
            warn(rows, "prediction")
            arrays = tuple([self._squeezed(part[k]) for part in both] for k in range(1 + return_std))
        else:
            both = self._arrays(rows, len(asked.columns))
            warn(rows, "prediction")
            arrays = tuple(map(self._squeezed, both[: 1 + return_std]))
        arrays = tuple(array[0] for array in arrays) if alone else arrays
        return arrays if return_std else arrays[0]

    def predict_interval(
        self,
        smiles: str | Iterable[object],
        level: float = 0.9,
        num_workers: int = 0,
        descriptors: Any = None,
        calibration_method: str = "",
    ) -> tuple[Any, Any]:
        """Lower and upper ends between which the truth lies with a probability of `level`, each shaped as predictions.

        Conformal, unless the model was trained with another calibration method: see
        `molattn.models.calibration.prediction_intervals`.

        Args:
            smiles, num_workers, descriptors: as for `predict`.
            level: above 0 and below 1.
            calibration_method: "conformal-regression", "zscaling" or "isotonic"; "none" for what the model itself
                believes; the model's own choice when empty.

        Raises:
            UsageError: a model of classes or without calibration, or too few calibration molecules for the level.
        """
        if self.task.kind != "regression":
            raise UsageError("intervals are of numbers, and the model answers classes: ask for predict_set")
        beside = Beside(interval=level, calibration_method=calibration_method)
        rows, alone = self._rows(smiles, num_workers, descriptors, beside)
        ends = np.full((len(rows), len(self.targets), 2), np.nan)
        for i, row in enumerate(rows):
            if row.values is not None:
                ends[i] = np.reshape(row.more[len(self.more) :], (-1, 2))
        warn(rows, "prediction")
        lower, upper = (self._squeezed(ends[..., k]) for k in range(2))
        return (lower[0], upper[0]) if alone else (lower, upper)

    def predict_set(
        self,
        smiles: str | Iterable[object],
        level: float = 0.9,
        num_workers: int = 0,
        descriptors: Any = None,
        calibration_method: str = "",
    ) -> Any:
        """The classes of which one is the true one with a probability of `level`: a tuple of names for each SMILES.

        Of several targets a tuple of them; None for a SMILES that cannot be read. See
        `molattn.models.calibration.prediction_sets`.

        Args:
            smiles, num_workers, descriptors: as for `predict`.
            level: above 0 and below 1.
            calibration_method: "conformal-multiclass", "conformal-adaptive" or "isotonic"; "none" for what the model
                itself believes; the model's own choice when empty.

        Raises:
            UsageError: a model of numbers or without calibration, or too few calibration molecules for the level.
        """
        if self.task.kind == "regression":
            raise UsageError("sets are of classes, and the model answers numbers: ask for predict_interval")
        beside = Beside(interval=level, calibration_method=calibration_method)
        rows, alone = self._rows(smiles, num_workers, descriptors, beside)
        several = len(self.targets) > 1
        found = [
            None if row.values is None else (row.more[len(self.more) :] if several else row.more[len(self.more)])
            for row in rows
        ]
        warn(rows, "prediction")
        return found[0] if alone else found

    def _rows(
        self, smiles: str | Iterable[object], num_workers: int, descriptors: Any, beside: Beside
    ) -> tuple[list[RowPrediction], bool]:
        """The rows of some SMILES, and whether it was one alone."""
        alone = isinstance(smiles, str)
        given = descriptor_rows(descriptors, alone)
        return list(self.rows([smiles] if alone else smiles, num_workers, None, given, beside)), alone

    def _squeezed(self, values: np.ndarray) -> np.ndarray:
        """Without the axis of targets where there is one."""
        return values[:, 0] if len(self.targets) == 1 else values

    def _arrays(self, rows: Sequence[RowPrediction], width: int) -> tuple[np.ndarray, np.ndarray]:
        """(n, T) or (n, T, classes), and the last T of the `width` columns beside them; NaN without a prediction."""
        numbers, more = np.full((len(rows), len(self.targets)), np.nan), np.full((len(rows), width), np.nan)
        for i, row in enumerate(rows):
            if row.values is not None:
                numbers[i] = [np.nan if isinstance(v, str) else v for v in row.values]
                more[i] = row.more
        return self.task.to_array(Predictions(numbers, more)), more[:, max(0, width - len(self.targets)) :]

    def rows(
        self,
        smiles: Iterable[object],
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
        beside: Beside = PLAIN,
    ) -> Generator[RowPrediction, None, None]:
        """One `RowPrediction` for each SMILES, in order, whatever it is; nothing stops at a bad one.

        Args:
            smiles, descriptors: as for `predict`; any iterables.
            num_workers: processes that read molecules.
            progress: told now and then how many have been read.
            beside: what is asked for beside the predictions; `columns_beside` names it.

        Raises:
            UsageError: descriptors that the model needs are not given, it reads none, or there are too few or many; or
                what is asked for beside, and the model cannot say.
        """
        answer = partial(self._predicted, Asked(self._artifact, beside))
        return self._stream(smiles, num_workers, progress, answer, descriptors)

    def columns_beside(self, beside: Beside = PLAIN) -> list[BesideColumn]:
        """What stands in `RowPrediction.more` where `beside` is asked for.

        Raises:
            UsageError: the model cannot say it.
        """
        return Asked(self._artifact, beside).columns

    def embed(self, smiles: str | Iterable[object], num_workers: int = 0, descriptors: Any = None) -> np.ndarray:
        """Fingerprints, in the order of `smiles`: what the model's last, linear map reads of each molecule.

        Shapes: (n, d); one string brings its one vector, (d,). Descriptors, as for `predict`, are its last numbers,
        standardised.

        A SMILES that cannot be read has NaN, and a `MolattnWarning` says which and why. See `embed_rows`.

        Raises:
            UsageError: a model of atoms, which has no vector of a molecule.
        """
        alone = isinstance(smiles, str)
        missing = (np.nan,) * self.dim
        rows = list(
            self.embed_rows([smiles] if alone else smiles, num_workers, None, descriptor_rows(descriptors, alone))
        )
        values = np.array([missing if r.values is None else r.values for r in rows]).reshape(-1, self.dim)
        warn(rows, "fingerprint")
        return values[0] if alone else values

    def embed_rows(
        self,
        smiles: Iterable[object],
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
    ) -> Generator[RowPrediction, None, None]:
        """As `rows`, with the d numbers of the fingerprint as `values`."""
        return self._stream(smiles, num_workers, progress, self._embedded, descriptors)

    @property
    def dim(self) -> int:
        """d, the length of a fingerprint.

        Raises:
            UsageError: a model of atoms, which has no vector of a molecule.
        """
        if self.task.of_atoms:
            raise UsageError(
                f"the model answers for atoms ({', '.join(self.targets)}): it has no vector of a molecule to embed"
            )
        return self._artifact.model.head.in_features

    def _predicted(self, asked: Asked, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[Said | str]:
        refused: dict[int, str] = {}
        said: list[Said | str] = [*asked.said(molecules, z, refused)]
        if self.task.of_atoms:
            atoms: Any = iter(said)
            of_each = (list(islice(atoms, n)) for n in self._artifact.model.rows_per_molecule(molecules).tolist())
            said = [(columns(v for v, _ in mine), columns(m for _, m in mine)) for mine in of_each]
        return _without(refused, said)

    def _embedded(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[Said | str]:
        refused: dict[int, str] = {}
        vectors = embed_molecules(self._artifact.model, molecules, descriptors=z, failures=refused)
        return _without(refused, [(tuple(vector), ()) for vector in vectors.tolist()])

    def _stream(
        self,
        smiles: Iterable[object],
        num_workers: int,
        progress: Callable[[int], None] | None,
        answer: Callable[[Sequence[Molecule], np.ndarray | None], list[Said | str]],
        descriptors: Any,
    ) -> Generator[RowPrediction, None, None]:
        """A row for each SMILES, `CHUNK_SIZE` of them predicted together: memory is bounded for any input length."""
        waiting: list[MoleculeRow] = []
        beside = DescriptorStream(self._artifact.descriptors, descriptors)
        with closing(self._reads(smiles, num_workers, progress, beside)) as parts:
            for reads in parts:
                waiting += reads
                while len(waiting) >= CHUNK_SIZE:
                    yield from answered(waiting[:CHUNK_SIZE], answer)
                    del waiting[:CHUNK_SIZE]
        yield from answered(waiting, answer)

    def evaluate(
        self,
        table: str | Path,
        *,
        smiles_column: str = "",
        metrics: Sequence[str] = (),
        num_workers: int = 0,
        progress: Progress | None = None,
    ):
        """The metrics on a table that has the columns of the targets: what `molattn evaluate` does.

        Args:
            table: its path.
            smiles_column: found by its name when empty.
            metrics: such as "rmse" or "auroc"; the task's own when empty.
            num_workers, progress: as for `molattn.chem.featurize`.

        Returns:
            An `Evaluation`: `.metrics`, `.answers`, `.targets` and `.rejected`.

        Raises:
            UsageError: a column or metric that does not exist.
            InputError: a table that cannot be used.
        """
        # Late: a prediction does without all that training brings in.
        from molattn.training.evaluation import evaluate

        return evaluate(
            self._artifact,
            table,
            smiles_column=smiles_column,
            metrics=tuple(metrics),
            num_workers=num_workers,
            conformers=self.conformers,
            progress=progress,
        )

    def save(self, folder: str | Path) -> None:
        """Write the model as `model.safetensors` and `config.json`, which `load` and the commands read."""
        save_artifact(folder, self._artifact)

    def __repr__(self) -> str:
        return f"Predictor of {', '.join(self.targets)}"


def _without(refused: dict[int, str], said: list[Said | str]) -> list[Said | str]:
    """What was said, and of which nothing was, or no finite number, why."""
    return [
        refused[i] if i in refused else one if isinstance(one, str) or all_finite(one) else NOT_FINITE
        for i, one in enumerate(said)
    ]
