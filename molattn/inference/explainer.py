"""Attention maps of a model, and what each atom contributed to a prediction."""

import shlex
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from molattn.data.files import file_sha256
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.errors import MolattnWarning, SmilesError, UsageError
from molattn.explain import NOT_MEASURED, AttentionMap, Attribution
from molattn.explain.attribute import attribute, choose_attribution_method, explained_output, target_index
from molattn.explain.tree_shap import TREE_SHAP
from molattn.hub.address import is_hub_address, parse_address
from molattn.inference.attention_maps import iter_maps
from molattn.inference.molecules import as_smiles
from molattn.inference.row_counts import RowCounts
from molattn.inference.torch_predictor import TorchPredictor
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.descriptor_stream import DescriptorStream, InputRow, usable_molecules
from molattn.models.predict import MAX_ATTENTION_PAIRS
from molattn.training.run_status import model_folder, run_of_model

if TYPE_CHECKING:
    from molattn.explain.run_faithfulness import RunFaithfulness
    from molattn.viewer.web import Page
    from molattn.viewer.web.outcomes import MeasuredValues


class Explainer(TorchPredictor):
    """The part of a `Predictor` that explains its predictions.

    For an ensemble, maps, attributions and embeddings are those of its first model: the heads of different models are
    unrelated, so that a mean over them would have no meaning. The prediction of a map is that of the ensemble, and an
    attribution explains the first model's own. `Predictor.members` are the models one by one.
    """

    @overload
    def attention(self, smiles: str, descriptors: Any = None) -> AttentionMap: ...
    @overload
    def attention(self, smiles: Any, descriptors: Any = None) -> Any: ...
    def attention(self, smiles: Any, descriptors: Any = None) -> Any:
        """What every atom of a molecule attends to: `.weights` is (layers, heads, n, n), in the SMILES' atom order.

        Of an ensemble it is the attention of the first model, `members[0]`: heads of different models are unrelated.

        The order is that of the map's own `.smiles`: a model that standardizes molecules reads the standard form, and
        a model of SMILES attends to tokens instead, those of the canonical SMILES. Descriptors, as for `predict`,
        change only the map's prediction.

        Args:
            smiles: a SMILES or an RDKit molecule; for many, as for `predict`, the result is a list of maps.
                `attentions` makes them one by one, in bounded memory, with errors in place of the bad ones.
            descriptors: as for `predict`.

        Returns:
            An `AttentionMap`, or a list of them.

        Raises:
            SmilesError: a molecule, or its descriptors, cannot be read, or the model's output for it is not finite.
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: a data frame without a column of SMILES; descriptors that are missing, too few, too many or not
                read by the model.
        """
        read, single = self._read(smiles, descriptors)
        z = [row for _, row in read if row is not None]
        maps = list(self._maps([molecule for molecule, _ in read], np.stack(z) if z else None))
        for attention in maps:
            if isinstance(attention, SmilesError):
                raise attention
        return maps[0] if single else maps

    def attentions(
        self,
        smiles: Any,
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
    ) -> Generator[AttentionMap | SmilesError, None, None]:
        """The map of each SMILES, in order; an error in place of one that cannot be read, without stopping the others.

        For any number of SMILES: a few maps are in memory at a time. A `MolattnWarning` at the end reports how many
        molecules had path lengths instead of a 3D geometry. Maps of a model with descriptors have no prediction if no
        descriptors are passed, for example with the SMILES of a data frame, `frame["smiles"]`, in place of the frame.

        Args:
            smiles: as for `predict`; any iterable.
            num_workers: processes that read molecules; 0 to read them in this process.
            progress: called after each chunk with the number of SMILES read so far.
            descriptors: an iterable of a row for each SMILES, or a data frame; those of a data frame of molecules are
                taken from its columns by default.

        Raises:
            TypeError: when the first map is requested: `smiles` is neither a molecule nor a list of them.
            UsageError: while the maps are made: as `attention`.
        """
        waiting: list[InputRow] = []
        pairs, counts = 0, RowCounts()
        molecules = as_smiles(smiles, atom_order=True)
        z = self._descriptors_of(molecules, descriptors)
        stream = DescriptorStream(None if z is None and self.descriptors else self._artifact.descriptors, z)
        with closing(self._read_rows(molecules.smiles, num_workers, progress, stream)) as chunks:
            for row in chain.from_iterable(chunks):
                waiting.append(row)
                counts.rows += 1
                if not isinstance(row.molecule, SmilesError):
                    pairs += row.molecule.size**2
                    counts.add_geometry(row.smiles, row.molecule.warnings)
                if pairs >= MAX_ATTENTION_PAIRS or len(waiting) == CHUNK_SIZE:
                    yield from self._map_rows(waiting)
                    waiting, pairs = [], 0
        yield from self._map_rows(waiting)
        if counts.geometry_message:
            warnings.warn(MolattnWarning(counts.geometry_message), stacklevel=2)

    def _map_rows(self, rows: Sequence[InputRow]) -> Iterator[AttentionMap | SmilesError]:
        """A map or an error for each row."""
        maps = self._maps(*usable_molecules(rows))
        for row in rows:
            yield row.molecule if isinstance(row.molecule, SmilesError) else next(maps)

    def _maps(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> Iterator[AttentionMap | SmilesError]:
        """The map of each molecule, or an error where the model's output is not finite; see `iter_maps`."""
        summaries = (by_method["attention"] for by_method in self._faithfulness.values() if "attention" in by_method)
        return iter_maps(self._artifact, molecules, z, next(summaries, self._not_measured()))

    @overload
    def attributions(  # pyright: ignore[reportOverlappingOverload]
        self, smiles: str, method: str | None = None, target: str | None = None, descriptors: Any = None
    ) -> Attribution: ...
    @overload
    def attributions(
        self, smiles: Any, method: str | None = None, target: str | None = None, descriptors: Any = None
    ) -> Any: ...
    def attributions(
        self,
        smiles: Any,
        method: str | None = None,
        target: str | None = None,
        descriptors: Any = None,
    ) -> Any:
        """How much each atom contributed to a prediction: one `Attribution`, or a list for several SMILES.

        Of an ensemble, the prediction of its first model, `members[0]`, is explained.

        Args:
            smiles: a SMILES or an RDKit molecule, or many, as for `predict`. `attribution_rows` makes the attributions
                of many one by one, with errors in place of the bad ones.
            method: "fragment-shapley", "additive", "occlusion", "integrated-gradients", "cam", "grad-attention",
                "rollout" or "attention". None for "fragment-shapley"; for a model of conformers, of hydrogens or of
                descriptor columns "additive" if the readout is a sum or a mean over atoms, or else "occlusion". These
                have the unit of the target, and positive values raise the prediction. "grad-attention", "rollout" and
                "attention" have neither sign nor unit. "tree-shap" explains the boosted trees of a model that has
                them; the others never do.
            target: its name, required for a model of several targets. For a target of several classes it can also be
                the prediction column of a class. For binary targets the log-odds are explained.
            descriptors: as for `predict`; with an additive method their contribution is separate from the atoms'.

        Raises:
            SmilesError: a molecule, or its descriptors, cannot be read, or its prediction or attribution is not finite.
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: there is no such method or target, or the method does not work for this model; and as
                `attention`.
        """
        name = self._check_attribution(method, target)
        read, single = self._read(smiles, descriptors)
        attributions = [self._attribution(molecule, z, name, target) for molecule, z in read]
        return attributions[0] if single else attributions

    def attribution_rows(
        self,
        smiles: Any,
        method: str | None = None,
        target: str | None = None,
        descriptors: Any = None,
        num_workers: int = 0,
    ) -> Generator[Attribution | SmilesError, None, None]:
        """The attribution of each SMILES, in order; an error in place of one without, which does not stop the others.

        For any number of SMILES: a chunk of them is in memory at a time. A `MolattnWarning` at the end reports how many
        molecules had path lengths instead of a 3D geometry.

        Args:
            smiles, descriptors: as for `predict`; any iterables.
            method, target: as for `attributions`.
            num_workers: processes that read molecules; 0 to read them in this process.

        Raises:
            TypeError: when the first attribution is requested: `smiles` is neither a molecule nor a list of them.
            UsageError: while the attributions are made: there is no such method or target, or the method does not work
                for this model; and as `attention`.

        Example::

            for row in predictor.attribution_rows(["CCO", "C1CC"]):
                print(row)  # an Attribution, then a SmilesError
        """
        yield from self._attribution_rows(smiles, method, target, descriptors, num_workers)

    def _attribution_rows(
        self,
        smiles: Any,
        method: str | None,
        target: str | None,
        descriptors: Any = None,
        num_workers: int = 0,
        known: dict[str, np.ndarray] | None = None,
    ) -> Generator[Attribution | SmilesError, None, None]:
        """As `attribution_rows`; `known` are outputs of fragments, see `fragment_shapley`, of this model only."""
        name, counts = self._check_attribution(method, target), RowCounts()
        molecules = as_smiles(smiles, atom_order=True)
        stream = DescriptorStream(self._artifact.descriptors, self._descriptors_of(molecules, descriptors))
        with closing(self._read_rows(molecules.smiles, num_workers, None, stream)) as chunks:
            for row in chain.from_iterable(chunks):
                counts.rows += 1
                found: Attribution | SmilesError
                if isinstance(row.molecule, SmilesError):
                    found = row.molecule
                else:
                    counts.add_geometry(row.smiles, row.molecule.warnings)
                    try:
                        found = self._attribution(row.molecule, row.descriptors, name, target, known)
                    except SmilesError as error:
                        found = error
                yield found
        if counts.geometry_message:
            warnings.warn(MolattnWarning(counts.geometry_message), stacklevel=3)

    def view(
        self,
        smiles: Any,
        *,
        methods: Sequence[str] = (),
        truth: Sequence["MeasuredValues | None"] = (),
        names: Sequence[str] = (),
    ) -> "Page":
        """The interactive page of molecules, in a notebook or as a file: what `molattn view` writes.

        Its first tab shows attention, its second the attributions by every method, each with its measured
        faithfulness.

        Args:
            smiles: a SMILES or an RDKit molecule, or many, as for `predict`.
            methods: of attribution, as for `attributions`; empty for all that support the model, its default first.
            truth: for each molecule its measured values by target name, or None; empty for none.
            names: a name for each molecule, "" for none; empty for none at all.

        Raises:
            SmilesError: a molecule cannot be read.
            UsageError: a method that there is not, or that does not support the model; or another number of measured
                values or names than of molecules.

        Example::

            predictor.view("CCO")  # at the end of a cell of a notebook
            predictor.view(["CCO", "c1ccccc1"], methods=["occlusion"]).save("page.html")
        """
        from molattn.inference.views import page_attributions, page_classes
        from molattn.viewer.web import Page, page

        molecules = as_smiles(smiles, atom_order=True)
        maps = self.attention(list(molecules.smiles))
        warn = lambda text: warnings.warn(MolattnWarning(text), stacklevel=3)  # noqa: E731
        found = page_attributions(self, [attention.smiles for attention in maps], warn, methods)
        return Page(page(maps, found, truth, names, page_classes(self)))

    def _check_attribution(self, method: str | None, target: str | None) -> str:
        """The name of the method; UsageError for a method or target that there is not, even without molecules."""
        name = choose_attribution_method(self._artifact, method)
        explained_output(self._artifact, target, np.zeros(self._artifact.model.head.out_features))
        return name

    def _attribution(
        self,
        molecule: Molecule,
        z: np.ndarray | None,
        method: str,
        target: str | None,
        known: dict[str, np.ndarray] | None = None,
    ) -> Attribution:
        """The attribution of one molecule, with descriptors (k,), and the faithfulness of its method."""
        a = self._artifact
        found = attribute(a, molecule, method, target, descriptors=None if z is None else z[None], known=known)
        by_method = self._faithfulness.get(found.target) or self._faithfulness.get(target or a.targets[0], {})
        summary = by_method.get(method) or self._not_measured(found.target)
        if a.trees is not None:
            t = target_index(a, found.target)
            summary = f"{a.trees.describe_share(t, of_trees=method == TREE_SHAP)}; {summary}"
        return replace(found, faithfulness=summary, part=_explained_part(a, method))

    def _not_measured(self, target: str = "") -> str:
        """`NOT_MEASURED`, with the command that measures it if the model was loaded from a run on this machine."""
        if self.folder is None or self.address:
            return NOT_MEASURED
        option = f" --target {shlex.quote(target)}" if target and target != self.targets[0] else ""
        return f"{NOT_MEASURED}: molattn faithfulness {shlex.quote(str(self._run_folder(None)))}{option}"

    def _read(self, smiles: Any, descriptors: Any) -> tuple[list[tuple[Molecule, np.ndarray | None]], bool]:
        """Molecules with their descriptors, and whether `smiles` was a single one; raises SmilesError."""
        molecules = as_smiles(smiles, atom_order=True)
        z = self._descriptors_of(molecules, descriptors)
        return self._read_list(list(molecules.smiles), z), molecules.single

    def faithfulness(
        self,
        run: str | Path | None = None,
        *,
        table: str | Path | None = None,
        smiles_column: str = "",
        table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
        target: str | None = None,
        methods: Sequence[str] = (),
        max_molecules: int = 500,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> "RunFaithfulness":
        """How faithful the methods of `attributions` are for this model: what `molattn faithfulness` does.

        The result is saved as `faithfulness.json` in the folder of the run, for the pictures of predictors that are
        loaded from it afterwards.

        Args:
            run: the folder of the run that the model is from; by default the one that it was loaded from.
            table: a table of molecules that the model was not trained on; None for the test molecules of the run.
            smiles_column: its column of SMILES; guessed by name when empty.
            table_options: encoding, header and sheet of the table.
            target: its name; for several classes also the prediction column of a class. By default the first target.
            methods: names of methods, as for `attributions`; empty for all that support the model.
            max_molecules: largest number of molecules; more are sampled at random, in their order.
            seed: seed of the sample, of the random orders and of the weights of the untrained model.
            progress: called with the number of finished molecules and their total number, counted twice where an
                untrained model is measured as well.

        Returns:
            A `RunFaithfulness`; `.faithfulness.methods["additive"].kendall` and so on.

        Raises:
            UsageError: the folder holds another model, or `run` is missing for a model that was not loaded from a
                folder; there is no such method, target or column, or the method does not work for this model; or the
                folder has no test molecules, and no table is given.
            InputError: a table that cannot be read, or without a molecule that can be read.
            MissingExtra: openpyxl is not installed, for a table of .xlsx.

        Example::

            found = molattn.load("runs/esol").faithfulness(max_molecules=100)
            found.faithfulness.methods["additive"].deletion_ratio
        """
        folder = self._run_folder(run)
        # Imported here: it imports scipy and scikit-learn, which prediction does not need.
        from molattn.explain.run_faithfulness import measure_run

        return measure_run(
            self._artifact,
            self._read_molecules,
            folder,
            table=table,
            smiles_column=smiles_column,
            table_options=table_options,
            target=target,
            methods=methods,
            max_molecules=max_molecules,
            seed=seed,
            progress=progress,
        )

    def _run_folder(self, run: str | Path | None) -> Path:
        """The folder of the run of this model: `run`, or None for the one that it was loaded from.

        Raises:
            UsageError: the folder holds another model, the model was not loaded from a folder, or it is in the cache of
                the hub.
        """
        if self.address and (run is None or is_hub_address(run)):
            address = parse_address(self.address)
            raise UsageError(
                f"{address} is in the cache of the hub, where no results are saved: run `hf download "
                f"{address.repository} --revision {address.revision} --local-dir FOLDER`, and measure FOLDER"
            )
        if run is None:
            if self.folder is None:
                raise UsageError("the model was not loaded from a run: pass the folder that it is saved in")
            return run_of_model(self.folder)
        model = model_folder(Path(run)) / "config.json"
        if not model.is_file() or file_sha256(model) != self.config_sha256():
            raise UsageError(f"{run} does not hold this model: pass the folder of the run that it is from")
        return Path(run)


def _explained_part(a: Artifact, method: str) -> str:
    """The part of a model that a method of attribution explains, in words; empty if it is all of it."""
    if method == TREE_SHAP:
        return "the boosted trees"
    count = len(a.models)
    if count > 1:
        return f"the first of {count} {'models' if a.trees is None else 'attention models'}"
    return "" if a.trees is None else "the attention model"
