"""The settings of the data and the training. Importing this module does not import torch.

Each is declared here, and named again in `molattn.training.options` for type checkers; a test compares the two.
"""

from dataclasses import dataclass

from molattn.models.names import AUTO_TRANSFORM, TRANSFORM_CHOICES
from molattn.training.bases import AUTO_BASE, FINE_TUNING
from molattn.training.command_option import option

# As in molattn.data, molattn.chem and molattn.models, which are not imported for the help screen.
OFFICIAL_SPLIT = "official"
SPLIT_NAMES = (*("random", "scaffold", "scaffold-balanced", "cluster", "kennard-stone", "stratified"), OFFICIAL_SPLIT)
FEATURIZER_NAMES = ("rdkit_few", "rdkit_2d", "morgan_count")
LOSS_NAMES = (
    *("mse", "mae", "huber", "mve", "evidential", "quantile", "bounded-mse", "bounded-mae"),
    *("bce", "cross-entropy", "dirichlet"),
)

LOGGER_NAMES = ("csv", "tensorboard", "mlflow", "wandb")

DUPLICATES = ("keep", "mean", "median", "drop")


@dataclass(frozen=True)
class DataConfig:
    """The settings of the data set and its split.

    Attributes:
        dataset: the name of a data set of molattn, or the path of a table.
        data_dir: a folder of data sets to search first, and to download to; empty for the default ones.
        encoding: of a table of text, such as "cp1252"; when empty UTF-8, UTF-16 if a byte-order mark says so, or
            Windows-1252 if it is not UTF-8.
        no_header_row: whether the table's first row is data; its columns are then column_1, column_2 and so on.
        sheet: of a workbook; the first one when empty.
        smiles_column: the table's column of SMILES; found by its name when empty.
        target_columns: the table's columns to learn. `*` in a name stands for any characters and `?` for one: "tox_*",
            or "*" for all columns without another role. Names may also be one text, "A,B".
        weight_column: the table's column of the weights of rows, 0 or more; empty for none.
        group_column: the table's column of the group of each row, such as an assay or a series; rows of one group get
            the same split label. Empty for none.
        descriptor_columns: the table's columns of extra descriptors, standardized and concatenated to the readout;
            named as `target_columns`.
        molecule_featurizers: extra descriptors that RDKit computes, also standardized and concatenated to the readout,
            names in `molattn.chem.MOLECULE_FEATURIZERS`: "rdkit_few", a dozen, the default of a graph model from
            scratch; "rdkit_2d", all; "morgan_count", 1,024 counts of substructures.
        add_hs: whether hydrogens become atoms of the graph.
        max_atoms: the maximum number of atoms; larger molecules are rejected.
        standardize: standardization of the molecules: "parent" (groups normalized, the largest fragment, neutral if
            possible) or "tautomer" (that, as its canonical tautomer); empty for none.
        conformers: whether to compute a 3D geometry of every molecule, for the model to use its distances.
        conformer_seed: of the random start of each geometry.
        conformer_timeout: whole seconds for each of the two attempts at a fragment.
        on_3d_failure: for a molecule without a geometry: "paths" uses path lengths times a bond length and warns,
            "reject" leaves the row out, "stop" ends the run.
        duplicates: rows of one molecule, with equal descriptors: "keep" uses each; "mean" and "median" merge them into
            one label (of classes, the most frequent), "drop" leaves out molecules whose labels are in conflict.
        split: "random", "scaffold", "scaffold-balanced", "cluster", "kennard-stone" or "stratified"; or "official",
            that of a benchmark's data set, which is its default.
        split_sizes: fractions of training, validation and test.
        calibration_size: fraction of all molecules that is held out from training for calibration, by `split`; 0 for
            none.
        split_column: a column of the table with "train", "val" or "test", used instead of `split`; empty for none.
        splits_file: a table of SMILES and split labels, used instead of `split`; empty for none.
        num_folds: of a cross-validation; 1 for none.
        fold: the test fold of this run, from 0; -1 for all of them, one after the other.
        target_transform: what is learned in place of the targets: "auto" takes log10 of each target that is skewed and
            positive; "none", "log10", "log1p", "neg-log10-molar" or "rank" is for all targets, and "NAME=log10" for
            one of them, the others having none. Predictions and metrics are in the units of the targets.
        task_type: "regression", "binary" or "multiclass", or if each cell holds a list with a value for every atom
            "atom-regression", "atom-binary" or "atom-multiclass"; inferred from the targets when empty.
        positive_class: of targets with two classes, the word (or number) of the class whose probability is predicted;
            a known one, such as active, yes or toxic, or else the last in the alphabet when empty.
        max_unreadable: the largest fraction of the target cells, those that are empty not counted, that may hold no
            valid label, such as words among numbers; above it training stops. Their rows are left out.
        decimal: the decimal mark of targets, weights and descriptors, "." or ","; found for each column when empty.
        thousands: their thousands separator: ",", ".", a space or an apostrophe; found for each column when empty.
    """

    dataset: str = option("", "A data set, see `molattn datasets list`.", metavar="NAME", hidden=False)
    data_dir: str = option("", "A folder of data sets to search first, and to download to; MOLATTN_DATA.")
    encoding: str = option("", "Encoding of a table of text, such as cp1252; found if not given.", metavar="NAME")
    no_header_row: bool = option(
        False, "The first row is data; the columns are column_1, column_2, ...", "--no-header-row"
    )
    sheet: str = option("", "Sheet of a workbook; the first if not given.", metavar="NAME")
    smiles_column: str = option("", "Column of SMILES. [default: by its name]", metavar="NAME", hidden=False)
    target_columns: tuple[str, ...] = option(
        (), r"Columns to learn: A B, or 'tox\_\*', or '\*' for all others.", metavar="NAME", hidden=False
    )
    task_type: str = option(
        "",
        "regression, binary, multiclass or, of atoms, atom-regression, ... [default: by the labels]",
        "-t",
        metavar="TYPE",
        hidden=False,
    )
    positive_class: str = option(
        "", "Of two classes the one whose probability is predicted, such as active.", metavar="WORD"
    )
    max_unreadable: float = option(0.1, "Share of target values that may be unreadable.", metavar="SHARE")
    target_transform: tuple[str, ...] = option(
        (AUTO_TRANSFORM,),
        f"Learn a transform: {', '.join(TRANSFORM_CHOICES)}, for one target NAME=log10; auto: log10 where skewed.",
        metavar="NAME",
    )
    decimal: str = option("", "Decimal mark of the numbers, such as a comma; found if not given.", metavar="MARK")
    thousands: str = option("", "Thousands separator of the numbers; found if not given.", metavar="MARK")
    weight_column: str = option("", "Column of weights of the rows.", metavar="NAME")
    group_column: str = option("", "Column of groups: the rows of a group have the same split label.", metavar="NAME")
    descriptor_columns: tuple[str, ...] = option(
        (), "Column of numbers, appended to the readout; several as for --target-columns.", metavar="NAME"
    )
    molecule_featurizers: tuple[str, ...] = option(
        (), f"Descriptors that RDKit computes, appended to the readout: {', '.join(FEATURIZER_NAMES)}.", metavar="NAME"
    )
    add_hs: bool = option(False, "Make hydrogens atoms of the graph.")
    max_atoms: int = 1000
    standardize: str = option(
        "", "Form of the molecules: parent (no salt, neutral) or tautomer.", metavar="FORM", hidden=False
    )
    conformers: bool = False
    conformer_seed: int = 0
    conformer_timeout: int = 10
    on_3d_failure: str = option(
        "paths", "A molecule without a 3D geometry: paths (path lengths instead), reject or stop."
    )
    duplicates: str = option("keep", f"Rows of one molecule: {', '.join(DUPLICATES)}.")
    split: str = option(
        "random",
        f"How to split: {', '.join(SPLIT_NAMES)}.",
        "--split",
        "--split-type",
        metavar="NAME",
        registry="split",
        hidden=False,
    )
    split_sizes: tuple[float, ...] = option((0.8, 0.1, 0.1), "Shares of train, val, test.", metavar="SHARES")
    calibration_size: float = option(
        0.0, "Share of the molecules held out, from training, to calibrate.", metavar="SHARE"
    )
    split_column: str = option(
        "", "A column of the table with train, val or test for each row.", "--split-column", "--splits-column"
    )
    splits_file: str = option(
        "", "A table with columns smiles and split, and the rows of the data.", metavar="PATH", hidden=False
    )
    num_folds: int = option(1, "k-fold cross-validation: k runs.", metavar="K", hidden=False, show_default=False)
    fold: int = -1


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of the training.

    Attributes:
        epochs: the maximum number.
        batch_size: molecules in a batch; several devices share it.
        learning_rate: the maximum, after the warm-up.
        rate_factors: "NAME=FACTOR" for parts of the model, such as "head=10": their learning rates, and with them their
            weight decay, are multiplied by the factor; 0 freezes a part. See
            `molattn.training.parameter_groups.rate_factors`.
        freeze: parts of the model, named as in `rate_factors`, whose weights do not change.
        freeze_epochs: the number of epochs after which these parts are trained too; 0 for never.
        weight_decay: of AdamW; 0 for none.
        warmup: fraction of the steps in which the learning rate rises linearly; a cosine decay follows.
        ema: decay per step of the exponential moving average of the weights, which is validated and saved; 0 for none.
            It is smaller in the first steps, so that a short training does not average its random initialization.
        grad_clip: maximum norm of the gradient; 0 for no limit.
        tracking_metric: what chooses the epoch whose weights are kept, and stops the training: "val_loss", the loss of
            the validation molecules, one of their reported metrics, such as "auroc", or "train_loss", the loss of the
            training molecules.
        patience: epochs without a better `tracking_metric` after which training stops. The default is 15 for a training
            from a base model.
        seed: of the split, the weights, the batches and the dropout.
        base: the initialization: the name of a base model, the folder of one that `molattn pretrain` wrote, or its
            address on the hub, hf://user/model; "none" to train from scratch, "auto" for "chembl" with 1,500 to 100,000
            training molecules and "nci" otherwise, where they are compatible.
        auxiliary: the weight, in the loss, of a dozen descriptors of the training molecules, which RDKit computes and
            the model learns in addition to its targets; 0 for none. The default is 0.3 for a graph model from scratch,
            and 1, without dropout, for a training from a base model on 1,500 to 100,000 molecules.
        distillation: the number of generated molecules whose labels are those of a teacher, which the model learns in
            addition to its training molecules; 0 for none. By default a training from a base model on 250 to 899
            molecules gets as many as make 2,000 molecules in all, except for numbers with little noise. The other
            settings are those of the teacher, a first training; for the second see `molattn.training.distillation`.
        checkpoint_every: epochs between two checkpoints, from which an interrupted run can be resumed.
        num_replicates: number of runs, with this seed and the next ones, one after the other.
        ensemble_size: models of an ensemble, trained on one split with this seed and the next ones; 1 for none.
        accelerator: "cpu", "gpu" (or "cuda", the same), or "auto", a GPU if there is one.
        devices: the number of devices on each machine, with a process for each, or their indices, such as "0,2";
            "auto" is one, or as many as torchrun started.
        num_nodes: the number of machines of a distributed training.
        num_workers: worker processes that read molecules; 0 reads them in the main process.
        threads: CPU threads of tensor operations. A small model gains little from a second one, and synchronized
            threads become very slow when other processes need the cores.
        loss: a name in `molattn.models.losses.LOSSES`; the first one of the task when empty.
        alpha: of the loss "quantile": its two quantiles are alpha / 2 and 1 - alpha / 2.
        evidential_regularization: of the losses "evidential" and "dirichlet": the weight of the penalty for evidence
            for a wrong prediction.
        uncertainty_method: how standard deviations are computed, one of
            `molattn.models.uncertainty.uncertainty_methods()`; by default that of the ensemble or the loss.
        dropout_sampling_size: forward passes of the uncertainty method "dropout".
        calibration_method: the default calibration of the model, a name in
            `molattn.models.calibration.CALIBRATION_METHODS`; the conformal one when empty.
        domain_size: the maximum number of training molecules that the model stores to detect molecules unlike them; 0
            for none.
        faithfulness_molecules: the maximum number of test molecules on which the faithfulness of attention and of the
            default attributions is measured after the training, within a second or two; 0 for none.
        metrics: the metrics to report, names in `molattn.training.metrics.METRICS`, the first of them after every
            epoch; the defaults of the task when empty.
        baseline: whether to train a random forest on fingerprints and descriptors as well, with the same split, and to
            report its metrics together with those of the model.
        with_trees: whether to fit boosted trees on fingerprints and descriptors as well, and to average their
            predictions with those of the model, with a weight that is fitted to the validation molecules; see
            `molattn.training.trees`.
        callbacks: what is called during the training, names in `molattn.training.callbacks.CALLBACKS`, which plugins
            define.
        logger: what settings, metrics and files are logged to, names in `molattn.training.loggers.LOGGERS`: "csv",
            "tensorboard", "mlflow", "wandb".
        task_weights: a factor on the loss of each target, above 0: numbers in the order of the targets, or
            "NAME=NUMBER" for some of them.
        class_balance: gives the classes of a target equal total weight in the loss; probabilities are then those of
            balanced classes.
        positive_weights: of binary targets, the weight of the positive class in the loss, relative to the negative
            class: one number, or one for each target.
    """

    epochs: int = option(
        100,
        f"Maximum number. [default: {FINE_TUNING['training']['epochs']} from a base model, 100 from scratch]",
        metavar="N",
        hidden=False,
        show_default=False,
    )
    batch_size: int = option(32, "Molecules in a batch.", "-b", metavar="N", hidden=False)
    learning_rate: float = option(1e-3, "Maximum, after a warm-up.", metavar="X", hidden=False)
    rate_factors: tuple[str, ...] = option(
        (), "Learning rates of parts of the model: head=10; 0 freezes a part.", metavar="NAME=X"
    )
    freeze: tuple[str, ...] = option((), "Parts of the model that are not trained: embed_atoms blocks.", metavar="PART")
    freeze_epochs: int = option(0, "Epochs after which they are trained too; without it never.", metavar="N")
    weight_decay: float = 1e-2
    warmup: float = 0.05
    ema: float = 0.99
    grad_clip: float = 1.0
    tracking_metric: str = option(
        "val_loss",
        "What chooses the epoch: val_loss, train_loss or a reported metric.",
        registry="metric",
    )
    patience: int = option(
        40,
        f"Epochs without a better one. [default: {FINE_TUNING['training']['patience']} from a base, 40 from scratch]",
        metavar="N",
        hidden=False,
        show_default=False,
    )
    seed: int = option(0, "Of split, weights, batches.", metavar="N", hidden=False, show_default=True)
    base: str = option(
        AUTO_BASE,
        "Pretrained weights: nci, chembl, a folder, hf://user/model, none. auto: chembl from 1,500 molecules, or nci.",
        metavar="BASE",
        hidden=False,
    )
    auxiliary: float = 0.0
    distillation: int = option(
        0,
        "Generated molecules that a teacher labels. [default: up to 2,000 in all, for few]",
        metavar="N",
        show_default=False,
    )
    checkpoint_every: int = 1
    num_replicates: int = option(1, "Number of runs, with this seed and the next ones.", show_default=False)
    ensemble_size: int = option(1, "Models that are averaged.", metavar="N", hidden=False)
    accelerator: str = option("auto", "cpu, gpu, or auto: a GPU if there is one.")
    devices: str = option("auto", "Number of devices on each machine, a process for each.")
    num_nodes: int = option(1, "Number of machines of a distributed training.")
    num_workers: int = option(0, "Processes that read molecules.", "-n", metavar="N", hidden=False, show_default=True)
    threads: int = 1
    loss: str = option("", f"The loss: {', '.join(LOSS_NAMES)}.", "--loss-function", "--loss", "-l", registry="loss")
    alpha: float = 0.1
    evidential_regularization: float = 0.2
    uncertainty_method: str = option(
        "", "How standard deviations are computed, such as dropout. [default: by ensemble or loss]"
    )
    dropout_sampling_size: int = 10
    calibration_method: str = option("", "conformal-regression, zscaling, isotonic; conformal-multiclass, ...")
    domain_size: int = 1000
    faithfulness_molecules: int = 30
    metrics: tuple[str, ...] = option(
        (), "What is reported: rmse mae, or auroc auprc.", "--metric", metavar="NAME", registry="metric", hidden=False
    )
    baseline: bool = option(False, "Also evaluate a random forest, as a baseline.")
    with_trees: bool = option(False, "Average the model with boosted trees.", hidden=False)
    callbacks: tuple[str, ...] = option(
        (), "Callbacks that plugins define, by their names.", metavar="NAME", registry="callback"
    )
    logger: tuple[str, ...] = option(
        (), f"Where to log it: {', '.join(LOGGER_NAMES)}.", metavar="NAME", registry="logger"
    )
    task_weights: tuple[float | str, ...] = option(
        (), "Weights of the targets in the loss: 1 0.5, or NAME=0.5.", metavar="X"
    )
    class_balance: bool = option(False, "Weight classes equally in the loss.", hidden=False)
    positive_weights: tuple[float, ...] = ()


BENCHMARK_SETTINGS = {
    "data": (
        *("dataset", "encoding", "no_header_row", "sheet", "smiles_column", "target_columns", "weight_column"),
        *("group_column", "descriptor_columns", "task_type", "positive_class", "max_unreadable", "decimal"),
        *("thousands", "split", "split_sizes", "split_column", "splits_file", "num_folds", "fold"),
    ),
    "training": ("seed", "num_replicates", "devices", "num_nodes"),
}
"""The settings that the protocol of a benchmark decides, by section: see `molattn.benchmark`."""
