"""Mutation testing: small faults are put into a module one at a time, and the tests of the module must notice.

    python tools/mutation/run.py [MODULE ...] [-o mutation.json] [--all] [--sample N --seed S] [--jobs J]
    python tools/mutation/run.py --page docs/mutation.md [--take OTHER.json ...] --no-run

The modules and their tests are in modules.py. What was killed before, in a module that is the same since, is taken from
the output file. equivalent.toml names the mutants that no test can tell from the original, with the reason: they are
not tried. `--all` tries both again. `--page` writes the table of everything that the output file has.

Needs the extra `test`, and Linux. mutmut 3.8 runs the tests of attention/score, at 2.5 mutants a second, but only with
the shape checks turned off (it imports molattn before jaxtyping's hook, which then refuses), it leaves out functions
with decorators (one in nine here: properties, static methods, context managers), and it numbers its mutants, so that a
list of the equivalent ones does not outlive an edit; cosmic-ray starts pytest and torch anew for each mutant.
"""

import argparse
import hashlib
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

from modules import MODULES
from mutants import Module
from page import page, table

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def main() -> None:
    """See above."""
    options = _options()
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"  # a forked child waits for ever for the threads of its parent
    from trial import outcomes_of

    equivalent = {m["mutant"]: m["why"] for m in tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]}
    results: dict[str, Any] = {}
    for path in [*options.take, options.output]:
        results |= json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    names = [] if options.no_run else options.modules or list(MODULES)
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
            options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    names = [name for name in names or results if name not in failed]
    print(f"\n{table({name: results[name] for name in names}, equivalent)}")
    killed = {key for result in results.values() for key, outcome in result["mutants"].items() if outcome == "killed"}
    for key in sorted(equivalent.keys() & killed):
        print(f"said to be equivalent, and killed: {key}")
    outcomes = {key: how for name in names for key, how in results[name]["mutants"].items()}
    noticed = sum(how in ("killed", "timeout") or key in equivalent for key, how in outcomes.items())
    if failed:
        sys.exit(f"the tests do not pass without any mutant: {', '.join(failed)}")
    if 100 * noticed < options.at_least * len(outcomes):
        sys.exit(f"{noticed} of {len(outcomes)} mutants are killed or equivalent, under {options.at_least:g}%")
    if options.page:
        ordered = {name: results[name] for name in MODULES if name in results}
        options.page.write_text(page(ordered, equivalent), encoding="utf-8")


def _result(
    name: str, before: dict[str, Any], equivalent: dict[str, str], options: argparse.Namespace, outcomes_of: Any
) -> dict[str, Any] | None:
    """What becomes of the mutants of one module; None if its tests fail without any."""
    start = time.perf_counter()
    module = Module(ROOT / "molattn" / f"{name}.py", name)
    of = len(module.mutants)
    if options.sample is not None and options.sample < of:
        module.mutants = random.Random(options.seed).sample(module.mutants, options.sample)
    digest = hashlib.sha256(module.path.read_bytes()).hexdigest()
    same = before.get("sha256") == digest and not options.all
    known = {} if options.all else dict.fromkeys(equivalent, "survived")
    known |= {key: "killed" for key, outcome in before.get("mutants", {}).items() if same and outcome == "killed"}
    print(f"{name}: {len(module.mutants)} mutants", flush=True)
    outcomes = outcomes_of(module, MODULES[name], known, ROOT)
    if outcomes is None:
        return None
    packages = ("torch", "pytest", "hypothesis")
    versions = {"python": platform.python_version(), **{package: version(package) for package in packages}}
    seconds = round(time.perf_counter() - start)
    settings = {"sha256": digest, "of": of, "seed": options.seed, "seconds": seconds, "versions": versions}
    return {**settings, "mutants": outcomes}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help=f"all by default: {', '.join(MODULES)}")
    parser.add_argument("-o", "--output", type=lambda p: Path(p).absolute(), default=Path("mutation.json").absolute())
    parser.add_argument("--all", action="store_true", help="try again what was killed, and the equivalent ones")
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants of each module, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("-j", "--jobs", type=int, default=cores, help=f"modules at a time ({cores}: one for each core)")
    parser.add_argument("--page", type=lambda p: Path(p).absolute(), help="write the table there")
    parser.add_argument("--at-least", type=float, default=0.0, metavar="PERCENT", help="to be killed, or equivalent")
    parser.add_argument("--no-run", action="store_true", help="try nothing; for --page")
    parser.add_argument(
        "--take", type=lambda p: Path(p).absolute(), nargs="+", default=[], metavar="JSON", help="outputs of other runs"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
