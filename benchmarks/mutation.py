"""Mutation testing of the modules where rows can be lost: small faults are put into them one at a time, and the tests
of the module must notice.

    python benchmarks/mutation.py [MODULE ...] [-o mutation.json] [--all]

Each mutant runs in a child that is forked after pytest has collected the tests, so nothing is imported again: the code
of the function is exchanged in place, and the tests that ran the line in an unchanged module are run, the fastest
first, until one fails. What was killed before, in a module that is the same since, is taken from the output file;
`--all` runs it again. EQUIVALENT names the mutants that no test can tell from the original, with the reason.

Needs the extra `test`, and Linux.
"""

import argparse
import contextlib
import gc
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
import tomllib
import types
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from mutants import Module, Mutant
from report import in_words, machine, markdown, save

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("mutation_equivalent.toml")
MODULES = {
    "data/tables": ["data/test_tables.py", "data/test_record_lists.py"],
    "data/csv_text": ["data/test_csv_text.py", "data/test_tables.py", "data/test_streams.py"],
    "data/lines": ["data/test_lines.py", "data/test_streams.py"],
    "data/chunks": ["data/test_streams.py", "data/test_readers.py"],
    "data/streams": ["data/test_streams.py", "data/test_readers.py"],
    "data/numbers": ["data/test_numbers.py", "data/test_records.py"],
    "data/records": ["data/test_records.py", "data/test_record_lists.py", "data/test_atom_lists.py"],
    "data/parts": ["data/test_parts.py"],
    "data/batches": ["data/test_batches.py"],
    "data/packing": ["data/test_packing.py"],
    "data/flat": ["data/test_flat.py"],
    "data/files": ["data/test_files.py", "data/test_tables.py"],
    "data/seal": ["data/test_seal.py"],
    "attention/masks": ["attention/test_masks.py"],
    "sequence/masks": ["sequence/test_masks.py"],
    "training/metrics": ["training/test_metrics.py"],
    "models/artifact": ["models/test_artifact.py"],
    "training/checkpoint": ["training/test_checkpoint.py"],
}
"""Which files of tests belong to a module; its doctests do, too."""

_SLOWEST = 3.0  # seconds: a test that takes longer tries no mutant


class Mutation:
    """The plugin of pytest that tries mutants in the place of running tests.

    Args:
        modules: to mutate.
        known: by name, what became of mutants before.
    """

    def __init__(self, modules: list[Module], known: dict[str, str]):
        self.modules, self.known = modules, known
        self.outcomes: dict[str, tuple[Mutant, str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own."""
        reached, seconds = self._baseline(session)
        originals = {module.name: module.codes() for module in self.modules}
        todo = [(module, mutant) for module in self.modules for mutant in module.mutants]
        for number, (module, mutant) in enumerate(todo, 1):
            outcome = self.known.get(mutant.name)
            if outcome is None:
                tests = sorted(
                    (
                        item
                        for item in session.items
                        if seconds[item.nodeid] < _SLOWEST
                        and any((module.name, line) in reached[item.nodeid] for line in mutant.lines)
                    ),
                    key=lambda item: seconds[item.nodeid],
                )
                outcome = _tried(module, mutant, originals[module.name], tests, seconds) if tests else "not reached"
            self.outcomes[mutant.name] = mutant, outcome
            if outcome not in ("killed", "timeout"):
                print(f"{outcome}: {mutant.name} (line {mutant.line})", flush=True)
            if number % 50 == 0:
                print(f"{number} of {len(todo)}", flush=True)
        return True

    def pytest_report_teststatus(self) -> tuple[str, str, str]:
        """No dots."""
        return "", "", ""

    def _baseline(self, session: pytest.Session) -> tuple[dict[str, set[tuple[str, int]]], dict[str, float]]:
        """The lines of the modules that every test runs, and the seconds it takes; in a child."""
        names = {str(module.path): module.name for module in self.modules}
        with tempfile.NamedTemporaryFile() as file:

            def run() -> int:
                found = {}
                for i, item in enumerate(session.items):
                    lines: set[tuple[str, int]] = set()

                    def trace(frame: types.FrameType, _: str, __: object, lines: set[Any] = lines) -> Any:
                        name = names.get(frame.f_code.co_filename)
                        if name is None:
                            return None

                        def line(frame: types.FrameType, _: str, __: object) -> Any:
                            lines.add((name, frame.f_lineno))
                            return line

                        return line

                    start = time.perf_counter()
                    sys.settrace(trace)
                    _protocol(session, i)
                    sys.settrace(None)
                    if session.testsfailed:
                        sys.stderr.write(f"{item.nodeid} fails without any mutant\n")
                        return 1
                    found[item.nodeid] = time.perf_counter() - start, sorted(lines)
                Path(file.name).write_text(json.dumps(found))
                return 0

            if _in_child(run, 3600, silent=False) != 0:
                raise pytest.UsageError("the tests must pass first")
            found = json.loads(Path(file.name).read_text())
        reached = defaultdict(set, {name: {(m, n) for m, n in lines} for name, (_, lines) in found.items()})
        return reached, {name: seconds for name, (seconds, _) in found.items()}


def _tried(
    module: Module,
    mutant: Mutant,
    originals: dict[str, list[types.CodeType]],
    tests: list[pytest.Item],
    seconds: dict[str, float],
) -> str:
    """What becomes of a mutant: killed by a test, by being too slow, or not."""
    session = tests[0].session

    def run() -> int:
        try:
            mutant.put()
            exchanged = _exchange(module, mutant.function, originals)
        except Exception:
            exchanged = False
        if not exchanged:
            return 3
        session.items = tests
        for i in range(len(tests)):
            _protocol(session, i)
            if session.testsfailed:
                return 1
        return 0

    code = _in_child(run, 10 + 3 * sum(seconds[item.nodeid] for item in tests))
    return {0: "survived", 3: "not exchanged", None: "timeout"}.get(code, "killed")


def _exchange(module: Module, function: str, originals: dict[str, list[types.CodeType]]) -> bool:
    """Give the function, wherever it is held, the code that the changed tree compiles to; whether there is one."""
    changed = module.codes()[function]
    file = str(module.path)
    live = [f for f in gc.get_objects() if isinstance(f, types.FunctionType) and f.__code__.co_filename == file]
    exchanged = False
    for old, new in zip(originals[function], changed, strict=True):
        for f in live:
            if f.__code__.co_qualname == function and f.__code__.co_firstlineno == old.co_firstlineno:
                f.__code__ = new
                exchanged = True
    return exchanged


def _protocol(session: pytest.Session, i: int) -> None:
    following = session.items[i + 1] if i + 1 < len(session.items) else None
    session.items[i].config.hook.pytest_runtest_protocol(item=session.items[i], nextitem=following)


def _in_child(run: Any, limit: float, silent: bool = True) -> int | None:
    """The exit status of `run` in a forked child; None if it takes longer than `limit` seconds."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setsid()
            if silent:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
            code = run()
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    try:
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):  # its children, too
            os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _table(outcomes: dict[str, tuple[Mutant, str]], equivalent: dict[str, str]) -> str:
    rows = []
    for name in [*dict.fromkeys(mutant.module for mutant, _ in outcomes.values()), "all"]:
        here = {key: outcome for key, (mutant, outcome) in outcomes.items() if name in ("all", mutant.module)}
        counts = Counter(here.values())
        same = sum(key in equivalent and outcome not in ("killed", "timeout") for key, outcome in here.items())
        killed = counts["killed"] + counts["timeout"]
        rows.append(
            [name, len(here), killed, len(here) - killed - same, same, f"{killed / max(1, len(here)):.0%}",
             f"{killed / max(1, len(here) - same):.0%}"]
        )  # fmt: skip
    columns = ["module", "mutants", "killed", "survived", "equivalent", "killed of all", "of those that can be"]
    return markdown(columns, rows)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help=f"all by default: {', '.join(MODULES)}")
    parser.add_argument("-o", "--output", type=Path, default=Path("mutation.json"))
    parser.add_argument("--all", action="store_true", help="try again what was killed before")
    options = parser.parse_args()
    start, where = time.perf_counter(), machine(("torch", "pytest", "hypothesis"))
    os.chdir(ROOT)
    before = json.loads(options.output.read_text())["results"] if options.output.exists() else {}
    equivalent = {m["mutant"]: m["why"] for m in tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]}
    results: dict[str, Any] = dict(before)
    outcomes: dict[str, tuple[Mutant, str]] = {}
    for name in options.modules or MODULES:
        module = Module(ROOT / "molattn" / f"{name}.py", name)
        digest = hashlib.sha256(module.path.read_bytes()).hexdigest()
        kept = before.get(name, {})
        same = kept.get("sha256") == digest and not options.all
        known = {key: "killed" for key, outcome in kept.get("mutants", {}).items() if same and outcome == "killed"}
        code, tried = _in_pytest(module, MODULES[name], known)
        if code:
            sys.exit(f"{name}: pytest ended with {code}")
        outcomes |= tried
        results[name] = {"sha256": digest, "mutants": {key: outcome for key, (_, outcome) in tried.items()}}
        save(options.output, "mutation", {}, results, where)
    print(f"\n{_table(outcomes, equivalent)}\n\n{in_words(where)} {time.perf_counter() - start:.0f} s.")
    for key in sorted(equivalent.keys() & {k for k, (_, outcome) in outcomes.items() if outcome == "killed"}):
        print(f"said to be equivalent, and killed: {key}")


def _in_pytest(module: Module, tests: list[str], known: dict[str, str]) -> tuple[int, dict[str, tuple[Mutant, str]]]:
    """Collect the tests in a process of their own, and try the mutants there."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"

        def run() -> int:
            plugin = Mutation([module], known)
            arguments = [*(f"tests/{name}" for name in tests), str(module.path.relative_to(ROOT))]
            options = ["-q", "-n0", "--no-header", "-p", "no:cacheprovider", f"--basetemp={folder}/tests"]
            code = pytest.main([*arguments, *options], plugins=[_Steady(), plugin])
            found.write_text(json.dumps({key: outcome for key, (_, outcome) in plugin.outcomes.items()}))
            return int(code)

        code = _in_child(run, 36_000, silent=False)
        if code != 0:
            return code or 1, {}
        outcomes = json.loads(found.read_text())
    return 0, {m.name: (m, outcomes[m.name]) for m in module.mutants}


class _Steady:
    """Hypothesis tries the same examples every time, and however long they take."""

    def pytest_configure(self) -> None:
        from hypothesis import HealthCheck, settings

        settings.register_profile(
            "mutation", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        settings.load_profile("mutation")


if __name__ == "__main__":
    main()
