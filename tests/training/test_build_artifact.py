"""The artifact of trained models: which of them predict, and whose embeddings are its applicability domain."""

from dataclasses import replace

import numpy as np
import pytest

from molattn.chem import DEFAULT_READ_OPTIONS
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.predict import compute_embeddings
from molattn.models.tasks import Regression
from molattn.training.build_artifact import build_artifact
from molattn.training.run_config import RunConfig
from tests.predictions import predict_molecules
from tests.training.test_learner import CONFIG, SCALER, SMALL, SMILES, TRAIN, VAL, model_of


@pytest.mark.parametrize("size", [1, 3])
def test_all_models_predict_and_the_first_embeds_the_domain(size: int) -> None:
    models = [model_of(seed=seed).eval() for seed in range(size)]
    artifact = build_artifact(
        RunConfig(model=SMALL, training=replace(CONFIG, ensemble_size=size)),
        models,
        Regression(),
        SCALER,
        ["y"],
        TRAIN,
        SMILES[: len(TRAIN)],
        units=("mol/l",),
        read_options=DEFAULT_READ_OPTIONS,
        descriptors=None,
    )
    assert artifact.models == tuple(models) and (artifact.targets, artifact.units) == (("y",), ("mol/l",))
    each = np.array([predict_molecules(model, SCALER, VAL.molecules) for model in models])
    predictions = artifact.apply_calibration(artifact.predict(VAL.molecules))
    np.testing.assert_allclose(predictions.values, each.mean(0), rtol=1e-5)
    assert (predictions.std is not None) == (size > 1)
    if predictions.std is not None:
        np.testing.assert_allclose(predictions.std, each.std(0), rtol=1e-4)
    assert isinstance(artifact.domain, ApplicabilityDomain)
    np.testing.assert_allclose(artifact.domain.embeddings, compute_embeddings(models[0], TRAIN.molecules), rtol=1e-5)
