"""What a trained model looked at, and what each atom contributed to its answer."""

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, overload

import numpy as np

from molattn.chem import NO_GEOMETRY, Progress
from molattn.chem.molecule import CHUNK_SIZE as CHUNK_OF_WORKER
from molattn.chem.molecule import CHUNK_SIZE_3D as CHUNK_OF_WORKER_3D
from molattn.chem.workers import map_chunks
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.errors import MolattnWarning, SmilesError, short_repr
from molattn.explain import NOT_MEASURED, AttentionMap, Attribution
from molattn.explain.attribute import attribute
from molattn.explain.faithfulness_file import Summaries
from molattn.explain.methods import choose_method
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.descriptors import DescriptorStream, MoleculeRow, stack_descriptors
from molattn.models.predict import MAX_ATTENTION_PAIRS, NOT_FINITE, iter_attention
from molattn.models.tasks import Multiclass


class Explainer:
    """The part of a `Predictor` that shows what is behind its answers.

    Of an ensemble, maps, attributions and fingerprints are those of its first model, with that model's own prediction:
    the heads of different models have nothing to do with each other, so that a mean over them would show none.
    `Predictor.members` are the models one by one.
    """

    def __init__(self, artifact: Artifact, measured: Summaries | None = None):
        self._artifact = artifact
        self._measured: Mapping[str, Mapping[str, str]] = measured or {}
        c = artifact.conformers
        self.conformers = c if c is None or c.on_failure != "stop" else replace(c, on_failure="reject")
        self.targets, self.units = artifact.targets, artifact.units
        self.more = tuple(artifact.extra_columns())
        self.descriptors = () if artifact.descriptors is None else artifact.descriptors.provided

    def attention(self, smiles: str, descriptors: Any = None) -> AttentionMap:
        """What every atom of a molecule attended to: `.weights` is (layers, heads, n, n), in the SMILES' atom order.

        The map's `.smiles` is whose atoms they are: a model that standardises molecules saw the standard form, and a
        model of SMILES attends to tokens instead, those of the canonical SMILES. Descriptors, as for `predict`, change
        the map's prediction alone.

        Raises:
            SmilesError: the SMILES, or its descriptors, cannot be read.
        """
        molecule, z = self._one(smiles, descriptors)
        (attention,) = self._maps([molecule], stack_descriptors([z]))
        if isinstance(attention, SmilesError):
            raise attention
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
        waiting: list[MoleculeRow] = []
        pairs = done = flat = 0
        first = ""
        scaler = None if descriptors is None and self.descriptors else self._artifact.descriptors
        with closing(self._reads(smiles, num_workers, progress, DescriptorStream(scaler, descriptors))) as parts:
            for read in chain.from_iterable(parts):
                done += 1
                waiting.append(read)
                text, outcome, _ = read
                if not isinstance(outcome, SmilesError):
                    pairs += outcome.size**2
                    found = next((w for w in outcome.warnings if w.startswith(NO_GEOMETRY)), "")
                    flat += bool(found)
                    first = first or (found and f"{short_repr(text)}: {found}")
                if pairs >= MAX_ATTENTION_PAIRS or len(waiting) == CHUNK_SIZE:
                    yield from self._mapped(waiting)
                    waiting, pairs = [], 0
        yield from self._mapped(waiting)
        if flat:
            said = f"{flat} of {done} SMILES have no 3D geometry; the first, {first}"
            warnings.warn(MolattnWarning(said), stacklevel=2)

    def _mapped(self, rows: Sequence[MoleculeRow]) -> Iterator[AttentionMap | SmilesError]:
        good = [(m, z) for _, m, z in rows if not isinstance(m, SmilesError)]
        maps = self._maps([m for m, _ in good], stack_descriptors(z for _, z in good))
        for _, outcome, _ in rows:
            yield outcome if isinstance(outcome, SmilesError) else next(maps)

    def _maps(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> Iterator[AttentionMap | SmilesError]:
        """Their maps, or an error where what the model says is not finite.

        They are without predictions where the model reads descriptors, and z holds none.
        """
        a = self._artifact
        measured = next((m["attention"] for m in self._measured.values() if "attention" in m), NOT_MEASURED)
        blind = z is None and a.descriptors is not None
        if z is None and a.descriptors is not None:  # attention does not depend on them
            z = np.zeros((len(molecules), len(a.descriptors.names)))
        for molecule, (outputs, weights) in zip(molecules, iter_attention(a.model, molecules, z), strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                answers = a.task.decode(outputs if a.task.of_atoms else outputs[None], a.scaler)
            if not all(np.isfinite(x).all() for x in (outputs, weights, answers.values, answers.distribution)):
                yield SmilesError(molecule.smiles, NOT_FINITE)
                continue
            if a.task.of_atoms or blind:
                said, units = {}, {}  # no number is the whole molecule's
            elif isinstance(a.task, Multiclass):
                names = a.task.distribution_columns(a.targets)
                said, units = dict(zip(names, answers.distribution[0].tolist(), strict=True)), dict.fromkeys(names, "")
            else:
                said = dict(zip(a.targets, answers.values[0].tolist(), strict=True))
                units = dict(zip(a.targets, a.units, strict=True))
            yield AttentionMap(
                smiles=molecule.encoded_smiles,
                symbols=molecule.labels,
                weights=weights,
                prediction=said,
                units=units,
                add_hs=a.add_hs,
                virtual=a.model.virtual_labels,
                rows_sum_to_one=a.model.rows_sum_to_one,
                position_type=a.model.position_type,
                faithfulness=measured,
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
            found = attribute(a, molecule, name, target, descriptors=stack_descriptors([z]))
            of_target = self._measured.get(found.target) or self._measured.get(target or a.targets[0], {})
            return replace(found, faithfulness=of_target.get(name, NOT_MEASURED))

        if isinstance(smiles, str):
            return explain(*self._one(smiles, descriptors))
        return [explain(molecule, z) for molecule, z in self._each(list(smiles), descriptors)]

    def faithfulness(self, run: str | Path, **options: Any):
        """How faithful the methods of `attributions` are for this model: what `molattn faithfulness` does.

        Args:
            run: the folder of the run that the model is from; it gets a file faithfulness.json.
            options: table, smiles_column, target, methods, max_molecules, seed and progress, as for
                `molattn.explain.run_faithfulness.measure_run`.

        Returns:
            A `RunFaithfulness`; `.faithfulness.methods["additive"].kendall` and so on.

        Raises:
            UsageError: there is no such method, target or column, or there are no molecules to measure on.
            InputError: a table that cannot be used.
        """
        # The measures bring in scipy and scikit-learn, which prediction does without.
        from molattn.explain.run_faithfulness import measure_run

        return measure_run(self._artifact, self._read, run, **options)

    def _one(self, smiles: str, descriptors: Any) -> tuple[Molecule, np.ndarray | None]:
        (found,) = self._each([smiles], descriptor_rows(descriptors, True))
        return found

    def _each(self, smiles: list[object], descriptors: Any) -> list[tuple[Molecule, np.ndarray | None]]:
        """Molecules with their descriptors; SmilesError for what is none, a warning where a geometry is wanting."""
        found = []
        beside = DescriptorStream(self._artifact.descriptors, descriptors)
        for text, molecule, z in beside.join(smiles, self._read(smiles)):
            if isinstance(molecule, SmilesError):
                raise molecule
            for warning in molecule.warnings:
                if warning.startswith(NO_GEOMETRY):
                    warnings.warn(MolattnWarning(f"{short_repr(text)}: {warning}"), stacklevel=4)
            found.append((molecule, z))
        beside.check_end()
        return found

    def _reads(
        self,
        smiles: Iterable[object],
        num_workers: int,
        progress: Callable[[int], None] | None,
        beside: DescriptorStream,
    ) -> Generator[list[MoleculeRow], None, None]:
        """The molecules as the model was trained to read them, with their descriptors, in order and some at a time."""
        a = self._artifact
        make = a.model.reader(
            add_hs=a.add_hs, max_atoms=a.max_atoms, conformers=self.conformers, standardize=a.standardize
        )
        size = CHUNK_OF_WORKER if self.conformers is None else CHUNK_OF_WORKER_3D
        done = 0
        with closing(map_chunks(smiles, beside.reader(make), num_workers, size)) as parts:
            for texts, outcomes in parts:
                done += len(texts)
                if progress is not None:
                    progress(done)
                yield list(beside.join(texts, outcomes))
        beside.check_end()

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


def descriptor_rows(descriptors: Any, alone: bool) -> Any:
    """Rows of descriptors, also where those of one molecule are given as they are."""
    if alone and isinstance(descriptors, int | float | Sequence | np.ndarray) and np.ndim(descriptors) < 2:
        return [descriptors]
    return descriptors
