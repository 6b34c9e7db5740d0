"""A model of scikit-learn on tasks of TDC's ADMET group, by the official protocol.

    python -m examples.tdc_random_forest caco2_wang herg --seeds 1 2 3 4 5

Another model needs another function: it gets a training, and returns predictions of the test molecules.
"""

import argparse

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from molattn.benchmark import benchmark_tasks, run_benchmark
from molattn.benchmark.trainings import TrainingJob
from molattn.chem import feature_vectors


def forest(job: TrainingJob) -> np.ndarray:
    """A random forest on counts of Morgan fingerprints; it needs no validation molecules, and leaves them out."""
    x, x_test = (feature_vectors(smiles, ["morgan_count"]) for smiles in (job.smiles, job.test_smiles))
    train = job.split == "train"
    if job.task_type == "binary":
        classifier = RandomForestClassifier(n_estimators=500, random_state=job.seed).fit(x[train], job.y[train])
        return np.asarray(classifier.predict_proba(x_test))[:, 1]
    return RandomForestRegressor(n_estimators=500, random_state=job.seed).fit(x[train], job.y[train]).predict(x_test)


def main() -> None:
    """Train on the tasks and print their scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--output-dir", default="runs/tdc-random-forest")
    options = parser.parse_args()
    tasks = benchmark_tasks("tdc", options.tasks)
    for s in run_benchmark(tasks, forest, options.output_dir, options.seeds, model="forest", on_training=print):
        print(f"{s.task}: {s.metric} {s.mean:.3f} ± {s.std:.3f}, {s.lower:.3f} to {s.upper:.3f}, rank {s.rank}")


if __name__ == "__main__":
    main()
