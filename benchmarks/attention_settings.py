"""Test errors of every score, normalizer and join of the attention, trained on ESOL's split random0.

    python benchmarks/attention_settings.py
    python benchmarks/attention_settings.py --epochs 100 --only "score additive"

Each is a training from scratch by `molattn train`, seed 0, with the default settings except for the one named and the
number of epochs. Settings other than the default use the reference implementation, which is slower on a CPU.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from commands import DATASETS, MOLATTN, run
from report import describe_machine, load_results, machine, markdown, save_results

SETTINGS = {
    "default": (),
    "score dot": ("model.score=dot",),
    "score general": ("model.score=general",),
    "score additive": ("model.score=additive",),
    "normalizer sparsemax": ("model.normalizer=sparsemax",),
    "normalizer hardmax": ("model.normalizer=hardmax",),
    "temperature 0.5": ("model.temperature=0.5",),
    "temperature 2": ("model.temperature=2",),
    "join w_jhl": ("model.join=w_jhl",),
    "join w_h": ("model.join=w_h",),
    "join mean": ("model.join=mean",),
    "join max": ("model.join=max",),
}


def main() -> None:
    """Train, print the table and save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, help="train these only; keep the other results")
    parser.add_argument("-o", "--output", type=Path, default=Path("attention_settings.json"))
    options = parser.parse_args()
    results = load_results(options.output)
    for name in options.only or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "run"
            split = DATASETS / "splits" / "esol-random0.csv"
            command = [*MOLATTN, "train", "--dataset", "esol", "--splits-file", split, "--base", "none"]
            command += ["--epochs", options.epochs, "-o", output]
            for setting in (*SETTINGS[name], "training.threads=1"):
                command += ["--set", setting]
            seconds = run(command).wall
            test = json.loads((output / "metrics.json").read_text(encoding="utf-8"))["test"]["log_solubility"]
            results[name] = {"rmse": test["rmse"], "seconds": seconds}
        print(f"{name}: {results[name]['rmse']:.3f}", file=sys.stderr, flush=True)
        save_results(options.output, "attention_settings", {"epochs": options.epochs}, results, machine())
    rows = [[name, f"{results[name]['rmse']:.3f}"] for name in SETTINGS if name in results]
    print(markdown(["attention", f"test RMSE on random0 after {options.epochs} epochs"], rows))
    print(f"\n{describe_machine(machine())}")


if __name__ == "__main__":
    main()
