"""Mutation testing: small faults are introduced into a module one at a time, and the tests of the module must fail.

    python tools/mutation/run.py [MODULE ... | --mathematics] [--all] [--sample N --seed S] [--jobs J] [-o results.json]
    python tools/mutation/run.py --page docs/mutation.md [--take OTHER.json ...] --no-run

The modules and their tests are in modules.py, the outcomes in results.json: mutants killed before, in a module that is
unchanged since, are not tried again. equivalent.toml lists the mutants that no test can distinguish from the original,
with the reason: they are not tried either. `--all` tries both again. `--page` writes the table of all modules with
results.

Needs the extra `test`, and Linux. Other tools do not suffice: mutmut 3.8 requires the shape checks to be turned off (it
imports molattn before jaxtyping's hook), skips functions with decorators (one in nine here: properties, static methods,
context managers), and numbers its mutants, so that a list of equivalent ones is invalid after an edit; cosmic-ray
restarts pytest and torch for each mutant.
"""

import argparse
import json
import os
import platform
import random
import sys
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modules import MODULES, in_mathematics
from mutants import Module, Mutant
from page import page, survivors, table

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    """Test the mutants, print the table, and write the results."""
    options = _options()
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"  # a forked child would wait forever for the threads of its parent
    from trial import outcomes_of

    equivalent = {m["mutant"]: m["why"] for m in tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]}
    results: dict[str, Any] = {}
    for path in [*options.take, options.output]:
        results |= json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    listed = options.modules or [name for name in MODULES if in_mathematics(name) or not options.mathematics]
    names = [] if options.no_run else listed
    failed: list[str] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        todo = {
            pool.submit(_result, name, results.get(name, {}), equivalent, options, outcomes_of): name for name in names
        }
        for done in as_completed(todo):
            if (result := done.result()) is None:
                failed.append(todo[done])
                continue
            results[todo[done]] = result
            ordered = {name: results[name] for name in MODULES if name in results}
            options.output.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    names = [name for name in names or results if name not in failed]
    print(f"\n{table({name: results[name] for name in names}, equivalent)}")
    tried = sum(results[name]["tried"] for name in names)
    survived = sum(len(survivors(results[name], equivalent)) for name in names)
    if failed:
        sys.exit(f"the tests do not pass without any mutant: {', '.join(failed)}")
    if 100 * (tried - survived) < options.at_least * tried:
        sys.exit(f"{tried - survived} of {tried} mutants are killed or equivalent, under {options.at_least:g}%")
    if options.page:
        current = {name: results[name] for name in MODULES if name in results}
        options.page.write_text(page(current, equivalent), encoding="utf-8")


def _result(
    name: str, before: dict[str, Any], equivalent: dict[str, str], options: argparse.Namespace, outcomes_of: Any
) -> dict[str, Any] | None:
    """The outcomes of the mutants of one module; None if its tests fail without mutants."""
    start = time.perf_counter()
    module = Module(ROOT / "molattn" / f"{name}.py", name)
    of = len(module.mutants)
    known = {} if options.all else dict.fromkeys(equivalent, "survived")
    if before.get("sha256") == module.digest and not options.all:
        tried_before = _sampled(module.mutants, before["tried"], before["seed"])
        known |= {m.name: "killed" for m in tried_before if m.name not in before["not_killed"]}
    module.mutants = _sampled(module.mutants, options.sample or of, options.seed)
    print(f"{name}: {len(module.mutants)} mutants", flush=True)
    outcomes = outcomes_of(module, MODULES[name], known, ROOT)
    if outcomes is None:
        return None
    for key in sorted(equivalent.keys() & {key for key, outcome in outcomes.items() if outcome == "killed"}):
        print(f"listed as equivalent, but killed: {key}", flush=True)
    packages = ("torch", "pytest", "hypothesis")
    return {
        "sha256": module.digest,
        "of": of,
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start),
        "versions": {"python": platform.python_version(), **{package: version(package) for package in packages}},
        "tried": len(outcomes),
        "not_killed": {key: outcome for key, outcome in outcomes.items() if outcome != "killed"},
    }


def _sampled(mutants: list[Mutant], number: int, seed: int) -> list[Mutant]:
    return random.Random(seed).sample(mutants, number) if number < len(mutants) else mutants


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help=f"all by default: {', '.join(MODULES)}")
    parser.add_argument("--mathematics", action="store_true", help="the modules of MATHEMATICS in modules.py alone")
    parser.add_argument("-o", "--output", type=lambda p: Path(p).absolute(), default=RESULTS)
    parser.add_argument(
        "--all", action="store_true", help="also run mutants that were killed before, and equivalent ones"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants of each module, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the sample")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        default=cores,
        help=f"number of concurrent modules (default: {cores}, the number of cores)",
    )
    parser.add_argument("--page", type=lambda p: Path(p).absolute(), help="the Markdown file to write")
    parser.add_argument(
        "--at-least", type=float, default=0.0, metavar="PERCENT", help="fail if fewer mutants are killed or equivalent"
    )
    parser.add_argument("--no-run", action="store_true", help="run no mutants; for --page")
    parser.add_argument(
        "--take",
        type=lambda p: Path(p).absolute(),
        nargs="+",
        default=[],
        metavar="JSON",
        help="results of other runs to include",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
