"""Every score, normalizer and join of molecules' attention, trained on ESOL: the test error on the split random0.

    python benchmarks/attention_settings.py
    python benchmarks/attention_settings.py --epochs 100 --only "score additive"

Each is a training from scratch by `molattn train`, seed 0, with the default settings but for the one named and the
number of epochs. Those that are not the default take the reference, which on a CPU is some times slower than C.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import in_words, machine, markdown, save, saved

SPLITS = Path(__file__).parents[1] / "datasets" / "splits" / "esol-random0.csv"
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
    """Train, print the table and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, help="these alone; the others stay as they were")
    parser.add_argument("-o", "--output", type=Path, default=Path("attention_settings.json"))
    options = parser.parse_args()
    results = saved(options.output)
    for name in options.only or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            command = [sys.executable, "-m", "molattn", "train", "--dataset", "esol", "--splits-file", str(SPLITS)]
            command += ["--base", "none", "--epochs", str(options.epochs), "-o", str(run)]
            for setting in (*SETTINGS[name], "training.threads=1"):
                command += ["--set", setting]
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, text=True)
            test = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["test"]["log_solubility"]
            results[name] = {"rmse": test["rmse"], "seconds": time.perf_counter() - start}
        print(f"{name}: {results[name]['rmse']:.3f}", file=sys.stderr, flush=True)
        save(options.output, "attention_settings", {"epochs": options.epochs}, results, machine())
    rows = [[name, f"{results[name]['rmse']:.3f}"] for name in SETTINGS if name in results]
    print(markdown(["attention", f"test RMSE on random0 after {options.epochs} epochs"], rows))
    print(f"\n{in_words(machine())}")


if __name__ == "__main__":
    main()
