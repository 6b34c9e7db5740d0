"""How faithful attributions are: beside the truth where it is known, and by what their top atoms do to the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import kendalltau, pearsonr
from sklearn.metrics import roc_auc_score

from molattn.chem import MoleculeGraph
from molattn.data.store.batches import collate
from molattn.errors import SmilesError, UsageError
from molattn.explain.attribute import explained
from molattn.explain.methods import METHODS, choose_method, offered, random_shares
from molattn.explain.occlusion import in_order
from molattn.explain.terms import Subject
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig
from molattn.models.descriptors import compute_descriptors
from molattn.models.graph_model import GraphModel
from molattn.models.predict import compute_outputs

RANDOM = "random"
"""What the baseline is called beside the methods."""

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares of the atoms that are removed in a deletion curve, the largest attributions first."""

_ORDERS = 5
"""Random orders of deletion per molecule."""


@dataclass(frozen=True)
class Measured:
    """What one method is worth on one target of one model: means over molecules.

    Attributes:
        kendall, pearson: tau-b and r between the values and the true terms of the atoms of a molecule; 0 where all
            values are the same. None without truth.
        auroc: how well |value| finds the atoms that count, those whose true term is larger in size than the mean of
            their molecule. None without truth.
        curve: how much the answer changes, in its unit, when the first 10, 20, ... 50% of the atoms are left out, the
            largest |value| first.
        deletion: the mean of that curve over that of random orders: 1 is chance, and more is better.
    """

    kendall: float | None
    pearson: float | None
    auroc: float | None
    curve: tuple[float, ...] | None
    deletion: float | None


@dataclass(frozen=True)
class Faithfulness:
    """What every method is worth on one target of one model.

    Attributes:
        target: which.
        unit: of the curves.
        molecules: how many were measured.
        with_truth: how many of them have true terms that differ, so that there is an order to find.
        methods: by name, the baseline `RANDOM` among them.
        untrained: the same, for a model with the same settings and the weights of its start; empty without truth.
    """

    target: str
    unit: str
    molecules: int
    with_truth: int
    methods: Mapping[str, Measured]
    untrained: Mapping[str, Measured]


def agreement(values: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Kendall's tau-b, Pearson's r and the AUROC of the atoms that count, of one molecule; see `Measured`.

    `truth` is not the same for all atoms. Values are compared to five digits of the largest, so that atoms that are
    alike but for rounding are ties.
    """
    top = np.abs(values).max()
    v = np.round(values / top, 5) if top > 0 else values
    y = np.round(truth, 4)
    size = np.abs(y)
    counts = size > size.mean()
    # All of one size, such as +1 and -1: every atom counts as much as the others.
    auroc = float(roc_auc_score(counts, np.abs(v))) if counts.any() and not counts.all() else 0.5
    if np.ptp(v) == 0:
        return 0.0, 0.0, auroc
    tau, r = kendalltau(v, y).statistic, pearsonr(v, y).statistic  # pyright: ignore[reportAttributeAccessIssue]
    return float(tau), float(r), auroc


def measure(
    artifact: Artifact,
    molecules: Sequence[MoleculeGraph],
    target: str | None = None,
    *,
    truth: Callable[[MoleculeGraph], np.ndarray] | None = None,
    methods: Sequence[str] = (),
    deletion: bool = True,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Faithfulness:
    """Every method on one target of a model, over molecules that it was not trained on.

    Descriptors that the model computes stay those of the whole molecule while atoms are left out.

    Args:
        target: see `explained`.
        truth: what every atom of a molecule adds to the target, (n,), where that is known.
        methods: which; all that the model offers when empty.
        deletion: whether to measure deletion curves.
        seed: of the random order and of the weights of the untrained model.
        progress: told how many of how many molecules are done.

    Raises:
        UsageError: no such method or target, not for this model, or no molecules.
        SmilesError: what the model answers for a molecule is not finite.
    """
    beside = artifact.descriptors
    if beside is not None and beside.provided:
        raise UsageError("this model reads columns beside molecules: faithfulness is measured without them only")
    if not molecules:
        raise UsageError("there are no molecules to measure attributions on")
    choose_method(artifact.model)
    model = artifact.model
    assert isinstance(model, GraphModel) and isinstance(model.config, GraphModelConfig)
    names = [choose_method(artifact.model, name) for name in methods] or offered(artifact.model)
    z = None if beside is None else beside.scale(np.array([compute_descriptors(m, beside.computed) for m in molecules]))
    failures: dict[int, str] = {}
    outputs = compute_outputs(artifact.model, molecules, descriptors=z, failures=failures)
    for i, reason in failures.items():
        raise SmilesError(molecules[i].smiles, reason)
    subjects = [collate([m], None, None if z is None else z[i : i + 1]) for i, m in enumerate(molecules)]
    about = [explained(artifact, target, row) for row in outputs]
    places, scale = [a.output for a in about], about[0].std
    total = len(molecules) * (2 if truth is not None else 1)
    told = progress or (lambda done, total: None)  # noqa: ARG005
    trained, known = _over(
        model, molecules, subjects, places, names, truth, deletion, scale, seed, lambda done: told(done, total)
    )
    untrained: Mapping[str, Measured] = {}
    if truth is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            k = model.num_descriptors
            fresh = GraphModel(model.config, model.head.out_features, num_descriptors=k).eval().requires_grad_(False)
        fresh = fresh.to(model.head.weight.device)
        untrained, _ = _over(
            fresh,
            molecules,
            subjects,
            places,
            names,
            truth,
            False,
            scale,
            seed,
            lambda done: told(len(molecules) + done, total),
        )
    return Faithfulness(target or artifact.targets[0], about[0].unit, len(molecules), known, trained, untrained)


def _over(
    model: GraphModel,
    molecules: Sequence[MoleculeGraph],
    subjects: Sequence[Subject],
    places: Sequence[int],
    names: Sequence[str],
    truth: Callable[[MoleculeGraph], np.ndarray] | None,
    deletion: bool,
    scale: float,
    seed: int,
    told: Callable[[int], None],
) -> tuple[dict[str, Measured], int]:
    """What is measured of every method, and how many molecules had a truth to compare with."""
    find = {**{name: METHODS[name].find for name in names}, RANDOM: random_shares(seed)}
    rng = np.random.default_rng(seed)
    agreements: dict[str, list[tuple[float, float, float]]] = {name: [] for name in find}
    curves: dict[str, list[np.ndarray]] = {name: [] for name in find}
    for done, (molecule, subject, output) in enumerate(zip(molecules, subjects, places, strict=True)):
        values = {name: method(model, subject, output).values for name, method in find.items()}
        terms = None if truth is None else truth(molecule)
        if terms is not None and np.ptp(np.round(terms, 4)) > 0:
            for name, v in values.items():
                agreements[name].append(agreement(v, terms))
        if deletion:
            for name, curve in _changes(model, subject, molecule.num_atoms, output, values, rng).items():
                curves[name].append(curve * scale)
        told(done + 1)
    chance = np.mean(curves[RANDOM]) if deletion else 0.0
    known = len(agreements[RANDOM])
    measured = {}
    for name in find:
        kendall, pearson, auroc = np.mean(agreements[name], axis=0).tolist() if known else (None, None, None)
        curve = np.mean(curves[name], axis=0) if deletion else None
        measured[name] = Measured(
            kendall,
            pearson,
            auroc,
            None if curve is None else tuple(curve.tolist()),
            None if curve is None or chance == 0 else float(curve.mean() / chance),
        )
    return measured, known


def _changes(
    model: GraphModel,
    molecule: Subject,
    n: int,
    output: int,
    values: Mapping[str, np.ndarray],
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """How much the output changes, (len(FRACTIONS),), as the top of n atoms by each method are left out."""
    counts = [0, *(max(1, round(share * n)) for share in FRACTIONS)]
    # Equal values in random order: the order in which atoms are written says nothing.
    shuffles = [rng.permutation(n) for _ in range(_ORDERS)]
    orders = [
        shuffles[0][np.argsort(-np.abs(v[shuffles[0]]), kind="stable")] for name, v in values.items() if name != RANDOM
    ]
    answers = in_order(model, molecule, [*orders, *shuffles], counts)[:, :, output]
    changed = np.abs(answers[:, 1:] - answers[:, :1])
    named = dict(zip((name for name in values if name != RANDOM), changed, strict=False))
    return {**named, RANDOM: changed[-_ORDERS:].mean(0)}
