"""From a trained model and a molecule to an `Attribution`: which number is explained, and in which unit."""

from dataclasses import dataclass

import numpy as np

from molattn.chem import MoleculeGraph
from molattn.data.store.batches import MoleculeBatch
from molattn.errors import SmilesError, UsageError
from molattn.explain.attention_map import NOT_MEASURED
from molattn.explain.attribution import Attribution
from molattn.explain.methods import METHODS, choose_method
from molattn.explain.terms import Terms
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.graph_model import GraphModel
from molattn.models.predict import NOT_FINITE, compute_outputs
from molattn.models.tasks import Binary, Multiclass


@dataclass(frozen=True)
class Explained:
    """The number that an attribution is about: one of those that a model puts out.

    y = mean + std * output

    Attributes:
        target: what to call it.
        output: its place among the outputs of the model.
        unit: of y.
        mean, std: from the output to y; 0 and 1 for scores of classes.
    """

    target: str
    output: int
    unit: str
    mean: float = 0.0
    std: float = 1.0


def explained(artifact: Artifact, target: str | None, outputs: np.ndarray) -> Explained:
    """What `target` asks for; `outputs`, (outputs,), are those of the molecule.

    A regression is explained in the unit of its target, a binary target by the log-odds of 1. Of several classes it
    is the score, before the softmax, of a class: of the one named as in the columns of a prediction, NAME_prob_CLASS,
    or of the one that the model answers, where the target itself is named.

    Raises:
        UsageError: there is no such target, there are several and none is named, or the model answers evidence.
    """
    task, targets = artifact.task, artifact.targets
    if task.loss == "dirichlet":
        raise UsageError(
            "a model with the loss dirichlet answers evidence, neither log-odds nor scores that attributions could "
            "explain: train with bce or cross-entropy"
        )
    columns = task.distribution_columns(targets) if isinstance(task, Multiclass) else []
    several = len(targets) > 1
    if target is None and several:
        raise UsageError(f"say which target to explain with --target: {', '.join((*targets, *columns))}")
    name = targets[0] if target is None else target
    if name in columns:
        return Explained(name, columns.index(name), "score")
    if name not in targets:
        raise UsageError(f"there is no target {name!r}: choose one of {', '.join((*targets, *columns))}")
    t = targets.index(name)
    if isinstance(task, Multiclass):
        own = [k for k, owner in enumerate(task.target_of_output(len(targets))) if owner == t]
        best = own[int(np.argmax(outputs[own]))]
        return Explained(columns[best], best, "score")
    if isinstance(task, Binary):
        return Explained(name, t, "log-odds")
    return Explained(name, t, artifact.units[t], artifact.scaler.mean[t], artifact.scaler.std[t])


def attribute(
    artifact: Artifact,
    molecule: Molecule,
    method: str | None = None,
    target: str | None = None,
    measured: str = NOT_MEASURED,
    descriptors: np.ndarray | None = None,
) -> Attribution:
    """How much each atom of a molecule contributed to one answer of a model.

    Args:
        method: a key of `METHODS`; None for the most faithful that the model offers.
        target: see `explained`.
        measured: how faithful that method was found to be for this model.
        descriptors: (1, k), standardised; None for a model without.

    Raises:
        UsageError: no such method or target, or not for this model.
        SmilesError: what the model answers, or a share of it, is not finite.
    """
    model = artifact.model
    name = choose_method(model, method)
    assert isinstance(model, GraphModel) and isinstance(molecule, MoleculeGraph)
    failures: dict[int, str] = {}
    outputs = compute_outputs(model, [molecule], descriptors=descriptors, failures=failures)[0]
    if failures:
        raise SmilesError(molecule.smiles, failures[0])
    about = explained(artifact, target, outputs)
    batch = model.collate([molecule], None, descriptors)
    assert isinstance(batch, MoleculeBatch)
    terms = METHODS[name].find(model, batch, about.output)
    found = attribution_of(artifact, molecule, terms, name, about, float(outputs[about.output]), measured)
    shares = [*found.values, *found.others.values(), found.prediction, found.constant or 0.0]
    if not np.isfinite(shares).all():
        raise SmilesError(molecule.smiles, NOT_FINITE)
    return found


def attribution_of(
    artifact: Artifact,
    molecule: MoleculeGraph,
    terms: Terms,
    method: str,
    about: Explained,
    output: float,
    measured: str = NOT_MEASURED,
) -> Attribution:
    """`terms` in the unit of what they explain."""
    scale = about.std if terms.in_units else 1.0
    names = () if artifact.descriptors is None else artifact.descriptors.names
    beside = dict(zip(names, [] if terms.descriptors is None else terms.descriptors.tolist(), strict=False))
    return Attribution(
        smiles=molecule.encoded_smiles,
        symbols=molecule.labels,
        values=np.asarray(terms.values, dtype=np.float64) * scale,
        method=method,
        target=about.target,
        prediction=about.mean + about.std * output,
        unit=about.unit,
        constant=None if terms.constant is None else about.mean + about.std * terms.constant,
        others={label: value * scale for label, value in {**terms.others, **beside}.items()},
        adds_up=terms.adds_up,
        add_hs=artifact.add_hs,
        measured=measured,
        in_units=terms.in_units,
    )
