"""A trained model that answers SMILES."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from molattn.api.explainer import Explainer, descriptor_rows
from molattn.api.rows import RowPrediction, Said, answered, columns, of_each_atom, warn
from molattn.chem import Progress
from molattn.data.streams import CHUNK
from molattn.errors import InputError, UsageError, describe_rows
from molattn.models.artifact import save_artifact
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.descriptors import DescriptorRows, Read
from molattn.models.predict import embed_molecules, outputs_of, too_large
from molattn.models.tasks import Answers, Task


class Predictor(Explainer):
    """A trained model that answers SMILES.

    Attributes:
        targets: what it predicts, T names.
        units: T units, empty where unknown.
        more: what it says beside them, M names: standard deviations, or the probability of every class.
        descriptors: the k columns of numbers that it reads beside each molecule; empty for none.
        conformers: how molecules get a 3D geometry, as in training; None for a model without 3D. A row stops nothing
            here: where training was to stop at a molecule without a geometry, prediction reports it as an error.
    """

    @property
    def model(self) -> MoleculeModel:
        """The model itself, a torch module in evaluation mode; its answers are standardised, not in units."""
        return self._artifact.model

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
    ) -> np.ndarray | np.float64 | list[np.ndarray]:
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

        Raises:
            InputError: SMILES that cannot be read, by their rows, where `on_error` is "raise".
            UsageError: another `on_error`.
        """
        if on_error not in ("nan", "raise"):
            raise UsageError(f"on_error is 'nan' or 'raise', not {on_error!r}")
        alone = isinstance(smiles, str)
        rows = list(self.rows([smiles] if alone else smiles, num_workers, None, descriptor_rows(descriptors, alone)))
        if on_error == "raise" and (bad := [(i, r.smiles, r.error) for i, r in enumerate(rows) if r.error]):
            raise InputError(describe_rows(bad, len(rows)))
        if self.task.of_atoms:
            arrays = [self._array(of_each_atom(row)) for row in rows]
            warn(rows, "prediction")
            if len(self.targets) == 1:
                arrays = [of_atoms[:, 0] for of_atoms in arrays]
            return arrays[0] if alone else arrays
        values = self._array(rows)
        warn(rows, "prediction")
        if len(self.targets) == 1:
            values = values[:, 0]
        return values[0] if alone else values

    def _array(self, rows: Sequence[RowPrediction]) -> np.ndarray:
        """(n, T) or (n, T, classes), NaN where there is no prediction."""
        numbers, more = np.full((len(rows), len(self.targets)), np.nan), np.full((len(rows), len(self.more)), np.nan)
        for i, row in enumerate(rows):
            if row.values is not None:
                numbers[i] = [np.nan if isinstance(v, str) else v for v in row.values]
                more[i] = row.more
        return self.task.array(Answers(numbers, more))

    def rows(
        self,
        smiles: Iterable[object],
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
    ) -> Generator[RowPrediction, None, None]:
        """One `RowPrediction` for each SMILES, in order, whatever it is; nothing stops at a bad one.

        Args:
            smiles, descriptors: as for `predict`; any iterables.
            num_workers: processes that read molecules.
            progress: told now and then how many have been read.

        Raises:
            UsageError: descriptors that the model needs are not given, it reads none, or there are too few or many.
        """
        return self._stream(smiles, num_workers, progress, self._predicted, descriptors)

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

    def _predicted(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[Said | str]:
        refused: set[int] = set()
        outputs = outputs_of(self._artifact.model, molecules, descriptors=z, refused=refused)
        answers = self.task.answers(outputs, self._artifact.scaler)
        said: list[Said | str] = [
            (tuple(self.task.named(v, t) for t, v in enumerate(numbers)), tuple(more))
            for numbers, more in zip(answers.values.tolist(), answers.more.tolist(), strict=True)
        ]
        if self.task.of_atoms:
            atoms = iter(said)
            of_each = (list(islice(atoms, n)) for n in self._artifact.model.counts(molecules).tolist())
            said = [(columns(v for v, _ in mine), columns(m for _, m in mine)) for mine in of_each]
        return self._without(refused, molecules, said)

    def _embedded(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[Said | str]:
        refused: set[int] = set()
        vectors = embed_molecules(self._artifact.model, molecules, descriptors=z, refused=refused)
        return self._without(refused, molecules, [(tuple(vector), ()) for vector in vectors.tolist()])

    def _without(self, refused: set[int], molecules: Sequence[Molecule], said: list[Said | str]) -> list[Said | str]:
        """What was said, and why nothing was of those that are too large for the memory."""
        for i in refused:
            said[i] = too_large(self._artifact.model, molecules[i].size)
        return said

    def _stream(
        self,
        smiles: Iterable[object],
        num_workers: int,
        progress: Callable[[int], None] | None,
        answer: Callable[[Sequence[Molecule], np.ndarray | None], list[Said | str]],
        descriptors: Any,
    ) -> Generator[RowPrediction, None, None]:
        """A row for each SMILES, `CHUNK` of them answered together: memory is bounded, whatever the input's length."""
        waiting: list[Read] = []
        beside = DescriptorRows(self._artifact.descriptors, descriptors)
        with closing(self._reads(smiles, num_workers, progress, beside)) as parts:
            for reads in parts:
                waiting += reads
                while len(waiting) >= CHUNK:
                    yield from answered(waiting[:CHUNK], answer)
                    del waiting[:CHUNK]
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
        # Metrics bring in torchmetrics and Lightning, which prediction does without.
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
