"""`Predictor`, and `load`, which loads one from a run folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molattn.chem import Progress
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.errors import UsageError
from molattn.explain.faithfulness_file import FILE as FAITHFULNESS_FILE
from molattn.explain.faithfulness_file import read_summaries
from molattn.hub.locate import address_in_errors, locate_model
from molattn.inference.array_predictor import ArrayPredictor
from molattn.inference.attention_table_predictor import AttentionTablePredictor
from molattn.inference.molecules import as_smiles
from molattn.inference.row_counts import warn_failed
from molattn.inference.table_predictor import TablePredictor
from molattn.models.artifact_file import load_artifact
from molattn.training.run_status import check_has_model, model_folder, run_of_model

if TYPE_CHECKING:
    import torch

    from molattn.inference.selection import Selection
    from molattn.inference.what_if import WhatIf
    from molattn.training.evaluation import Evaluation


class Predictor(ArrayPredictor, TablePredictor, AttentionTablePredictor):
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
        data_unseen: bool = False,
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
            data: a table of measured molecules, instead of the `predictions.csv` of the run.
            smiles_column, target_column: its columns; found by their names when empty.
            table_options: encoding, header and sheet of the table, and the number format of the target.
            data_unseen: the model was neither trained nor selected with the molecules of the table. A run's
                `splits.csv` records it for each molecule; a model without one, such as one on the hub, does not.
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
            [(row.variant.smiles, row.change, row.lower, row.upper, row.in_domain) for row in found.best(5)]
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
            table = data_table(self, data, name, smiles_column, target_column, table_options, num_workers, data_unseen)
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
            seen=() if self.folder is None else seen_smiles(run_of_model(self.folder)),
            progress=progress,
            table_options=table_options,
        )

    def export(self, path: str | Path, format: str = "onnx") -> None:
        """Write the model as one file for other programs: what `molattn export` does.

        The file predicts any number of molecules of any size, in the units of the targets; its metadata says what its
        tensors are. `OnnxPredictor` and `molattn predict` read an ONNX file without torch.

        Args:
            path: the file, such as "esol.onnx"; an existing one is replaced.
            format: "onnx", or "torch" for a program of `torch.export`, whose suffix is .pt2.

        Raises:
            UsageError: an unknown format; torch is older than 2.13; or a model that cannot be exported: one with
                boosted trees, with standard deviations from dropout, with parts of a plugin that torch cannot export,
                or on another device than the CPU.
            MissingExtra: onnx or onnxscript is not installed, for "onnx".
            OSError: the file cannot be written.

        Example::

            molattn.load("runs/esol").export("esol.onnx")
        """
        if self.accelerator != "cpu":
            raise UsageError(f"a model is exported on the CPU, and this one is on {self.device}: call to('cpu') first")
        # Imported here: it imports the exporters of torch.
        from molattn.models.exported.write import export_artifact

        export_artifact(self._artifact, path, format, self.config_sha256())

    def __repr__(self) -> str:
        a = self._artifact
        count = f", ensemble of {len(a.models)}" if len(a.models) > 1 else ""
        return f"Predictor(targets={self.targets!r}, model={a.model.config.kind!r}{count})"


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
        UsageError: a plugin cannot be loaded; an address that is malformed; there is no such device or precision; or
            `run` is an ONNX file.
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
    if Path(run).suffix == ".onnx":
        raise UsageError(f"{run} is a model in ONNX: molattn.inference.OnnxPredictor({str(run)!r}) loads it")
    located = locate_model(run, (FAITHFULNESS_FILE,))
    check_has_model(located.folder)
    folder = model_folder(located.folder)
    with address_in_errors(located):
        artifact = load_artifact(folder)
    return Predictor(artifact, read_summaries(located.folder, folder), folder, str(located.address or "")).to(
        device, precision
    )
