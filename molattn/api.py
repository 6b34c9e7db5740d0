"""What a person types in Python: `molattn.train(...)` and `molattn.load(run)`."""

import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from molattn.chem import NO_GEOMETRY, Progress
from molattn.chem.molecule import CHUNK as CHUNK_OF_WORKER
from molattn.chem.molecule import CHUNK_3D as CHUNK_OF_WORKER_3D
from molattn.chem.workers import stream_outcomes
from molattn.data.streams import CHUNK
from molattn.errors import InputError, MolattnWarning, SmilesError, UsageError, describe_rows, shown
from molattn.explain import NOT_MEASURED, AttentionMap, Attribution
from molattn.explain.attribute import attribute
from molattn.explain.measured import Sentences, read_sentences
from molattn.explain.methods import choose_method
from molattn.models.artifact import Artifact, load_artifact, save_artifact
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.descriptors import DescriptorRows, Read, stacked
from molattn.models.predict import PAIRS, attentions_of, embed_molecules, outputs_of
from molattn.models.tasks import Answers, Multiclass, Task
from molattn.training.folders import check_has_model, to_resume

# Between two lines that say how far a long reading of molecules is.
SECONDS = 5.0

Value = float | str | tuple[float, ...] | tuple[str, ...]
"""What is said of one target: a number or the name of a class; or one for each atom."""

# The values of a molecule, and what stands beside them.
Said = tuple[tuple[Value, ...], tuple[Value, ...]]


@dataclass(frozen=True)
class RowPrediction:
    """What became of one SMILES.

    Attributes:
        smiles: as it was given.
        values: the prediction per target: a number in units, the probability of the positive class, or the name of
            a class; of a target of atoms, a tuple with one for each atom, in the order of the SMILES; or the numbers of
            the fingerprint, where that was asked for. None when there is an error.
        error: why there is none; empty otherwise.
        warnings: what the model could not see in the molecule, a sentence each.
        more: what stands beside the values, see `Predictor.more`; empty when there is an error.
    """

    smiles: object
    values: tuple[Value, ...] | None
    error: str = ""
    warnings: tuple[str, ...] = ()
    more: tuple[Value, ...] = ()


class Predictor:
    """A trained model that answers SMILES.

    Attributes:
        targets: what it predicts, T names.
        units: T units, empty where unknown.
        more: what it says beside them, M names: standard deviations, or the probability of every class.
        descriptors: the k columns of numbers that it reads beside each molecule; empty for none.
        conformers: how molecules get a 3D geometry, as in training; None for a model without 3D. A row stops nothing
            here: where training was to stop at a molecule without a geometry, prediction reports it as an error.
    """

    def __init__(self, artifact: Artifact, measured: Sentences | None = None):
        self._artifact = artifact
        self._measured: Mapping[str, Mapping[str, str]] = measured or {}
        c = artifact.conformers
        self.conformers = c if c is None or c.on_failure != "stop" else replace(c, on_failure="reject")
        self.targets, self.units = artifact.targets, artifact.units
        self.more = tuple(artifact.task.columns(artifact.targets))
        self.descriptors = () if artifact.descriptors is None else artifact.descriptors.names

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
        rows = list(self.rows([smiles] if alone else smiles, num_workers, None, _beside(descriptors, alone)))
        if on_error == "raise" and (bad := [(i, r.smiles, r.error) for i, r in enumerate(rows) if r.error]):
            raise InputError(describe_rows(bad, len(rows)))
        if self.task.of_atoms:
            arrays = [self._array(_of_each_atom(row)) for row in rows]
            _warn(rows, "prediction")
            if len(self.targets) == 1:
                arrays = [of_atoms[:, 0] for of_atoms in arrays]
            return arrays[0] if alone else arrays
        values = self._array(rows)
        _warn(rows, "prediction")
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
        rows = list(self.embed_rows([smiles] if alone else smiles, num_workers, None, _beside(descriptors, alone)))
        values = np.array([missing if r.values is None else r.values for r in rows]).reshape(-1, self.dim)
        _warn(rows, "fingerprint")
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

    def _predicted(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[Said]:
        outputs = outputs_of(self._artifact.model, molecules, descriptors=z)
        answers = self.task.answers(outputs, self._artifact.scaler)
        said: list[Said] = [
            (tuple(self.task.named(v, t) for t, v in enumerate(numbers)), tuple(more))
            for numbers, more in zip(answers.values.tolist(), answers.more.tolist(), strict=True)
        ]
        if not self.task.of_atoms:
            return said
        atoms = iter(said)
        of_each = (list(islice(atoms, n)) for n in self._artifact.model.counts(molecules).tolist())
        return [(_columns(v for v, _ in mine), _columns(m for _, m in mine)) for mine in of_each]

    def _embedded(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[Said]:
        vectors = embed_molecules(self._artifact.model, molecules, descriptors=z)
        return [(tuple(vector), ()) for vector in vectors.tolist()]

    def _stream(
        self,
        smiles: Iterable[object],
        num_workers: int,
        progress: Callable[[int], None] | None,
        answer: Callable[[Sequence[Molecule], np.ndarray | None], list[Said]],
        descriptors: Any,
    ) -> Generator[RowPrediction, None, None]:
        """A row for each SMILES, `CHUNK` of them answered together: memory is bounded, whatever the input's length."""
        a = self._artifact
        make = a.model.reader(
            add_hs=a.add_hs, max_atoms=a.max_atoms, conformers=self.conformers, standardize=a.standardize
        )
        size = CHUNK_OF_WORKER if self.conformers is None else CHUNK_OF_WORKER_3D
        beside = DescriptorRows(a.descriptors, descriptors)
        waiting: list[Read] = []
        done = 0
        with closing(stream_outcomes(smiles, make, num_workers, size)) as parts:
            for texts, outcomes in parts:
                waiting += beside.join(texts, outcomes)
                done += len(texts)
                if progress is not None:
                    progress(done)
                while len(waiting) >= CHUNK:
                    yield from _answered(waiting[:CHUNK], answer)
                    del waiting[:CHUNK]
        beside.check_end()
        yield from _answered(waiting, answer)

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

    def attention(self, smiles: str, descriptors: Any = None) -> AttentionMap:
        """What every atom of a molecule attended to: `.weights` is (layers, heads, n, n), in the SMILES' atom order.

        The map's `.smiles` is whose atoms they are: a model that standardises molecules saw the standard form, and a
        model of SMILES attends to tokens instead, those of the canonical SMILES. Descriptors, as for `predict`, change
        the map's prediction alone.

        Raises:
            SmilesError: the SMILES, or its descriptors, cannot be read.
        """
        molecule, z = self._one(smiles, descriptors)
        (attention,) = self._maps([molecule], stacked([z]))
        return attention

    def attentions(
        self,
        smiles: Iterable[object],
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
    ) -> Generator[AttentionMap | SmilesError, None, None]:
        """The map of each SMILES, in order, or the error of one that cannot be read: nothing stops at a bad one.

        Any number of SMILES: a few maps are held at a time. A `MolattnWarning` at the end says how many had path
        lengths in the place of a 3D geometry. Maps of a model with descriptors have no prediction where none are given.

        Args:
            smiles, descriptors: as for `predict`; any iterables.
            num_workers: processes that read molecules.
            progress: told now and then how many have been read.
        """
        a = self._artifact
        make = a.model.reader(
            add_hs=a.add_hs, max_atoms=a.max_atoms, conformers=self.conformers, standardize=a.standardize
        )
        size = CHUNK_OF_WORKER if self.conformers is None else CHUNK_OF_WORKER_3D
        beside = DescriptorRows(None if descriptors is None else a.descriptors, descriptors)
        waiting: list[Read] = []
        pairs = done = flat = 0
        first = ""
        with closing(stream_outcomes(smiles, make, num_workers, size)) as parts:
            for texts, outcomes in parts:
                done += len(texts)
                if progress is not None:
                    progress(done)
                for read in beside.join(texts, outcomes):
                    waiting.append(read)
                    text, outcome, _ = read
                    if not isinstance(outcome, SmilesError):
                        pairs += outcome.size**2
                        found = next((w for w in outcome.warnings if w.startswith(NO_GEOMETRY)), "")
                        flat += bool(found)
                        first = first or (found and f"{shown(text)}: {found}")
                    if pairs >= PAIRS or len(waiting) == CHUNK:
                        yield from self._mapped(waiting)
                        waiting, pairs = [], 0
        beside.check_end()
        yield from self._mapped(waiting)
        if flat:
            said = f"{flat} of {done} SMILES have no 3D geometry; the first, {first}"
            warnings.warn(MolattnWarning(said), stacklevel=2)

    def _mapped(self, rows: Sequence[Read]) -> Iterator[AttentionMap | SmilesError]:
        good = [(m, z) for _, m, z in rows if not isinstance(m, SmilesError)]
        maps = self._maps([m for m, _ in good], stacked(z for _, z in good))
        for _, outcome, _ in rows:
            yield outcome if isinstance(outcome, SmilesError) else next(maps)

    def _maps(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> Iterator[AttentionMap]:
        """Their maps; without predictions where the model reads descriptors, and z holds none."""
        a = self._artifact
        measured = next((m["attention"] for m in self._measured.values() if "attention" in m), NOT_MEASURED)
        blind = z is None and bool(self.descriptors)
        if blind:  # attention does not depend on them
            z = np.zeros((len(molecules), len(self.descriptors)))
        for molecule, (outputs, weights) in zip(molecules, attentions_of(a.model, molecules, z), strict=True):
            answers = a.task.answers(outputs if a.task.of_atoms else outputs[None], a.scaler)
            if a.task.of_atoms or blind:
                said, units = {}, {}  # no number is the whole molecule's
            elif isinstance(a.task, Multiclass):
                said, units = dict(zip(self.more, answers.more[0].tolist(), strict=True)), dict.fromkeys(self.more, "")
            else:
                said = dict(zip(a.targets, answers.values[0].tolist(), strict=True))
                units = dict(zip(a.targets, a.units, strict=True))
            yield AttentionMap(
                smiles=molecule.written,
                symbols=molecule.labels,
                weights=weights,
                prediction=said,
                units=units,
                add_hs=a.add_hs,
                virtual=a.model.virtual_labels,
                rows_sum_to_one=a.model.rows_sum_to_one,
                places=a.model.places,
                measured=measured,
            )

    @overload
    def attributions(  # pyright: ignore[reportOverlappingOverload]
        self, smiles: str, method: str | None = None, target: str | None = None, descriptors: Any = None
    ) -> Attribution: ...
    @overload
    def attributions(
        self, smiles: Iterable[object], method: str | None = None, target: str | None = None, descriptors: Any = None
    ) -> list[Attribution]: ...
    def attributions(
        self,
        smiles: str | Iterable[object],
        method: str | None = None,
        target: str | None = None,
        descriptors: Any = None,
    ) -> Attribution | list[Attribution]:
        """How much each atom contributed to what the model answers: one `Attribution`, or a list for several SMILES.

        Args:
            smiles: one, or many.
            method: "additive", "occlusion", "integrated-gradients", "cam", "grad-attention", "rollout" or
                "attention"; None for the most faithful that the model offers, in that order.
            target: its name, which a model of several targets needs; of a target of several classes also that of a
                class, as the columns of a prediction have it. Of binary targets the log-odds are explained.
            descriptors: as for `predict`; what they add stands apart from the atoms where the method adds up.

        Raises:
            SmilesError: a SMILES, or its descriptors, cannot be read.
            UsageError: there is no such method or target, or the method does not work for this model.
        """
        a = self._artifact
        name = choose_method(a.model, method)

        def explain(molecule: Molecule, z: np.ndarray | None) -> Attribution:
            found = attribute(a, molecule, name, target, descriptors=stacked([z]))
            of_target = self._measured.get(found.target) or self._measured.get(target or a.targets[0], {})
            return replace(found, measured=of_target.get(name, NOT_MEASURED))

        if isinstance(smiles, str):
            return explain(*self._one(smiles, descriptors))
        return [explain(molecule, z) for molecule, z in self._each(list(smiles), descriptors)]

    def faithfulness(self, run: str | Path, **options: Any):
        """How faithful the methods of `attributions` are for this model: what `molattn faithfulness` does.

        Args:
            run: the folder of the run that the model is from; it gets a file faithfulness.json.
            options: table, smiles_column, target, methods, max_molecules, seed and progress, as for
                `molattn.explain.trial.trial`.

        Returns:
            A `Trial`; `.found.methods["additive"].kendall` and so on.

        Raises:
            UsageError: there is no such method, target or column, or there are no molecules to measure on.
            InputError: a table that cannot be used.
        """
        # The measures bring in scipy and scikit-learn, which prediction does without.
        from molattn.explain.trial import trial

        return trial(self._artifact, self._read, run, **options)

    def _one(self, smiles: str, descriptors: Any) -> tuple[Molecule, np.ndarray | None]:
        (found,) = self._each([smiles], _beside(descriptors, True))
        return found

    def _each(self, smiles: list[object], descriptors: Any) -> list[tuple[Molecule, np.ndarray | None]]:
        """Molecules with their descriptors; SmilesError for what is none, a warning where a geometry is wanting."""
        found = []
        beside = DescriptorRows(self._artifact.descriptors, descriptors)
        for text, molecule, z in beside.join(smiles, self._read(smiles)):
            if isinstance(molecule, SmilesError):
                raise molecule
            for warning in molecule.warnings:
                if warning.startswith(NO_GEOMETRY):
                    warnings.warn(MolattnWarning(f"{shown(text)}: {warning}"), stacklevel=4)
            found.append((molecule, z))
        beside.check_end()
        return found

    def save(self, folder: str | Path) -> None:
        """Write the model as `model.safetensors` and `config.json`, which `load` and the commands read."""
        save_artifact(folder, self._artifact)

    def _read(
        self, smiles: Iterable[object], num_workers: int = 0, progress: Progress | None = None
    ) -> Sequence[Molecule | SmilesError]:
        """The molecules as the model was trained to read them."""
        a = self._artifact
        return a.model.read(
            smiles,
            add_hs=a.add_hs,
            max_atoms=a.max_atoms,
            num_workers=num_workers,
            conformers=self.conformers,
            progress=progress,
            standardize=a.standardize,
        )

    def __repr__(self) -> str:
        return f"Predictor of {', '.join(self.targets)}"


def _columns(rows: Iterable[Sequence[Any]]) -> tuple[Value, ...]:
    """What is said of atoms, (n, T), target by target: T tuples of n."""
    return tuple(zip(*rows, strict=True))


def _of_each_atom(row: RowPrediction) -> list[RowPrediction]:
    """What is said of a molecule's atoms as a row for each; none where there is no prediction."""
    if row.values is None:
        return []
    values: list[Any] = list(zip(*row.values, strict=True))  # pyright: ignore[reportArgumentType]
    more: list[Any] = list(zip(*row.more, strict=True)) or [()] * len(values)  # pyright: ignore[reportArgumentType]
    return [RowPrediction(row.smiles, v, more=m) for v, m in zip(values, more, strict=True)]


def without_geometry(rows: Sequence[RowPrediction]) -> str:
    """How many predictions rest on path lengths for want of a 3D geometry, and the first; empty for none."""
    found = [(i, r, w) for i, r in enumerate(rows) if (w := geometry_warning(r))]
    if not found:
        return ""
    i, first, warning = found[0]
    count = f"{len(found)} of {len(rows)} SMILES have no 3D geometry"
    return f"{count}; the first, row {i}, {shown(first.smiles)}: {warning}"


def geometry_warning(row: RowPrediction) -> str:
    """What stands in for the 3D geometry of a molecule; empty where it has one, or none was asked for."""
    return next((w for w in row.warnings if w.startswith(NO_GEOMETRY)), "")


def model_folder(run: str | Path) -> Path:
    """Where the model of a run lies: the folder `model` in it, or itself."""
    inside = Path(run) / "model"
    return inside if inside.is_dir() else Path(run)


def load(run: str | Path) -> Predictor:
    """The predictor of a run folder, or of the `model` folder in it, on the CPU.

    Raises:
        InputError: there is no model, it is damaged, or the run is not finished.
    """
    check_has_model(Path(run))
    folder = model_folder(run)
    return Predictor(load_artifact(folder), read_sentences(Path(run), folder))


def train(
    dataset: Any = "",
    *,
    output_dir: str | Path | None = None,
    config: str | Path | None = None,
    settings: Sequence[str] = (),
    force: bool = False,
    resume: str | Path | None = None,
    quiet: bool = False,
    **options: Any,
):
    """Train a model and write its run folder: what `molattn train` does.

    Args:
        dataset: a name such as "esol", the path of a table, or a data frame of pandas or polars, which is kept in
            the user's cache, so that its run can be resumed and repeated.
        output_dir: where the run goes; runs/NAME by default.
        config: a TOML file of settings, such as the `config.toml` of a run.
        settings: "section.key=value", the last word.
        force: replace a run that stands in `output_dir`.
        resume: the folder of an unfinished run, which goes on; it brings its settings along.
        quiet: say nothing but warnings.
        options: any setting by its own name: `epochs`, `seed`, `split`, `target_columns`, ...; see `RunConfig`.

    Returns:
        A `RunResult`: `.folder`, `.metrics`, `.history` and the predictions; or a `SeveralResult` for folds and
        replicates: `.folder`, `.metrics` with mean and standard deviation, and `.runs`.

    Raises:
        UsageError: an option that does not exist or makes no sense, a folder that is taken, or a run that cannot be
            resumed.
        InputError: data that cannot be used.
    """
    from molattn.training.config import resolve

    if not isinstance(dataset, str | Path):
        from molattn.data.frames import keep_frame

        dataset = keep_frame(dataset)
    if dataset:
        options["dataset"] = str(dataset)
    if resume is not None:
        config, output_dir = to_resume(resume, config, output_dir, force)
    return run(resolve(config, options, settings), output_dir, PrintReporter(quiet), force, resume is not None)


def run(config: Any, output_dir: str | Path | None, reporter: Any, force: bool = False, resume: bool = False):
    """Train as `config`, a `RunConfig`, says, and draw the plots of the run folder.

    With `resume`, the unfinished run in `output_dir` goes on. Folds and replicates bring a `SeveralResult`.
    """
    # Training brings in Lightning, which prediction does without.
    from molattn.training.replicates import members, run_several
    from molattn.training.run import run as train_and_evaluate
    from molattn.viewer import write_plots

    if members(config):
        return run_several(config, output_dir, reporter, force, resume, write_plots)
    result = train_and_evaluate(config, output_dir, reporter, force, resume)
    write_plots(result)
    return result


class PrintReporter:
    """Tells how a run goes in plain lines on standard error; warnings as Python warnings."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self.told = time.monotonic()

    def stage(self, text: str) -> None:
        """A new part of the work begins."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def warning(self, text: str) -> None:
        """Something a user should know."""
        warnings.warn(MolattnWarning(text), stacklevel=2)

    def molecules(self, done: int, total: int) -> None:
        """So many of all molecules have been read; told every few seconds."""
        if not self.quiet and time.monotonic() > self.told + SECONDS:
            self.told = time.monotonic()
            print(f"molecule {done} of {total}", file=sys.stderr)

    def epoch(self, record: Any, epochs: int) -> None:
        """One of at most `epochs` epochs is over; every tenth of them is told."""
        if not self.quiet and (record.epoch + 1) % max(1, epochs // 10) == 0:
            from molattn.training.metrics import METRICS

            metric = f"validation {METRICS[record.metric].label} {record.val_metric:.3f}"
            print(f"epoch {record.epoch + 1}/{epochs}: {metric}", file=sys.stderr)


def _beside(descriptors: Any, alone: bool) -> Any:
    """Rows of descriptors, also where those of one molecule are given as they are."""
    if alone and isinstance(descriptors, int | float | Sequence | np.ndarray) and np.ndim(descriptors) < 2:
        return [descriptors]
    return descriptors


def _answered(
    rows: Sequence[Read], answer: Callable[[Sequence[Molecule], np.ndarray | None], list[Said]]
) -> Iterator[RowPrediction]:
    molecules = [m for _, m, _ in rows if not isinstance(m, SmilesError)]
    answers = iter(answer(molecules, stacked(z for _, m, z in rows if not isinstance(m, SmilesError))))
    for text, outcome, _ in rows:
        if isinstance(outcome, SmilesError):
            yield RowPrediction(text, None, outcome.reason)
        else:
            values, more = next(answers)
            yield RowPrediction(text, values, "", outcome.warnings, more)


def _warn(rows: Sequence[RowPrediction], what: str) -> None:
    """Tell whoever called the caller which rows have NaN, and which have no geometry."""
    bad = [(i, r) for i, r in enumerate(rows) if r.error]
    if bad:
        i, first = bad[0]
        message = f"{len(bad)} of {len(rows)} SMILES have no {what} (NaN); the first, row {i}, "
        warnings.warn(MolattnWarning(f"{message}{shown(first.smiles)}: {first.error}"), stacklevel=3)
    if message := without_geometry(rows):
        warnings.warn(MolattnWarning(message), stacklevel=3)
