"""Tests mutants inside pytest: one collection of the tests, then a forked child for each mutant.

Modules are imported once: the code of the function is replaced in place, and the tests that reach the line in the
unchanged module are run, the fastest first, until one fails. A child has limits of CPU time for each test, of wall time
for all of them, and of memory.
"""

import contextlib
import gc
import importlib
import json
import mmap
import os
import resource
import signal
import sys
import tempfile
import time
import types
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mutants import Module, Mutant

_MAX_TEST_SECONDS = 3.0  # of CPU time: slower tests are not used
_IMPORTED = (
    *("matplotlib", "molattn", "numpy", "pandas", "pyarrow", "rdkit", "scipy", "sklearn", "torch", "torch_geometric"),
)
"""Packages that are slow to import."""
_NUM_KILLERS = 3  # the tests that killed the most recent mutants run first: they often reach the next mutant, too
_MEMORY = 4 << 30  # bytes that a child may allocate in addition to those of its parent


def outcomes_of(module: Module, tests: list[str], known: dict[str, str], root: Path) -> dict[str, str] | None:
    """The outcome of each mutant of a module by name; None if the tests fail without mutants.

    Args:
        module: with the mutants to test.
        tests: test files, or tests in them, relative to tests/, and options of pytest; the doctests of the module are
            run, too.
        known: outcomes of mutants that are not tested again.
        root: of the repository, which is the current folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"

        def run() -> int:
            plugin = Mutation(module, known)
            arguments = [name if name.startswith("--") else f"tests/{name}" for name in tests]
            arguments.append(str(module.path.relative_to(root)))
            options = ["-q", "-n0", "--no-header", "-p", "no:cacheprovider", f"--basetemp={folder}/tests"]
            code = pytest.main([*arguments, *options], plugins=[_DeterministicHypothesis(), plugin])
            found.write_text(json.dumps(plugin.outcomes))
            return int(code)

        # In a separate process, because tests must be collected before anything is imported.
        if _in_child(run, 36_000, silent=False) != 0:
            return None
        return json.loads(found.read_text())


class Mutation:
    """A pytest plugin that tests mutants instead of only running the tests.

    Args:
        module: to mutate.
        known: earlier outcomes by name of the mutant.
    """

    def __init__(self, module: Module, known: dict[str, str]):
        self.module, self.known = module, known
        self.outcomes: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Replaces the loop of pytest."""
        # Import here, instead of in every child, where the first test would include the time.
        for name in self._baseline(session)[2]:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        reached, seconds, _ = self._baseline(session)
        functions = _find_functions(self.module)
        killers: list[str] = []
        gc.freeze()  # otherwise the garbage collector of each child copies the pages that it visits
        for number, mutant in enumerate(self.module.mutants, 1):
            outcome = self.known.get(mutant.name)
            if outcome is None:
                found = (item for item in session.items if seconds[item.nodeid] < _MAX_TEST_SECONDS)
                reaching = (item for item in found if not mutant.lines.isdisjoint(reached[item.nodeid]))
                tests = sorted(reaching, key=lambda item: (item.nodeid not in killers, seconds[item.nodeid]))
                outcome, killer = _test_mutant(self.module, mutant, functions, tests, seconds)
                if killer is not None:
                    killers = [killer, *(name for name in killers if name != killer)][:_NUM_KILLERS]
            self.outcomes[mutant.name] = outcome
            if outcome not in ("killed", "timeout"):
                print(f"{outcome}: {mutant.name} (line {mutant.line})", flush=True)
            if number % 50 == 0:
                print(f"{number} of {len(self.module.mutants)}", flush=True)
        return True

    def pytest_report_teststatus(self) -> tuple[str, str, str]:
        """Print no progress characters."""
        return "", "", ""

    def _baseline(self, session: pytest.Session) -> tuple[dict[str, frozenset[int]], dict[str, float], list[str]]:
        """The lines of the module that each test reaches, its CPU time, and the packages that the tests import; in a
        child."""
        path = str(self.module.path)
        with tempfile.NamedTemporaryFile() as file:

            def run() -> int:
                found, loaded_before = {}, set(sys.modules)
                for i, item in enumerate(session.items):
                    lines: set[int] = set()

                    def trace(frame: types.FrameType, _: str, __: object, lines: set[Any] = lines) -> Any:
                        if frame.f_code.co_filename != path:
                            return None

                        def line(frame: types.FrameType, _: str, __: object) -> Any:
                            lines.add(frame.f_lineno)
                            return line

                        return line

                    start = _processor_seconds()
                    sys.settrace(trace)
                    _protocol(session, i)
                    sys.settrace(None)
                    if session.testsfailed:
                        sys.stderr.write(f"{item.nodeid} fails without a mutant\n")
                        return 1
                    found[item.nodeid] = _processor_seconds() - start, sorted(lines)
                imported = sorted(
                    name for name in sys.modules.keys() - loaded_before if name.partition(".")[0] in _IMPORTED
                )
                Path(file.name).write_text(json.dumps([found, imported]))
                return 0

            if _in_child(run, 3600, silent=False) != 0:
                raise pytest.UsageError("the tests must pass first")
            found, imported = json.loads(Path(file.name).read_text())
        reached = defaultdict(frozenset, {name: frozenset(lines) for name, (_, lines) in found.items()})
        return reached, {name: seconds for name, (seconds, _) in found.items()}, imported


def _test_mutant(
    module: Module,
    mutant: Mutant,
    functions: dict[str, list[list[types.FunctionType]]],
    tests: list[pytest.Item],
    seconds: dict[str, float],
) -> tuple[str, str | None]:
    """The outcome of a mutant, and the test that killed it."""
    if not tests:
        return "not reached", None
    session, test_index = tests[0].session, mmap.mmap(-1, 8)  # shared with the child

    def run() -> int:
        try:
            mutant.apply()
            replaced = _replace_code(module, mutant.function, functions)
        except Exception:
            replaced = False
        if not replaced:
            return 3
        session.items = tests
        _, hardest = resource.getrlimit(resource.RLIMIT_CPU)
        for i in range(len(tests)):
            limit = time.process_time() + 10 + 5 * seconds[tests[i].nodeid]
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), hardest))
            test_index[:] = i.to_bytes(8, "little")
            _protocol(session, i)
            if session.testsfailed:
                return 1
        return 0

    code = _in_child(run, 60 + 10 * sum(seconds[item.nodeid] for item in tests))
    outcomes = {0: "survived", 3: "not replaced", None: "timeout", -signal.SIGXCPU: "timeout"}
    outcome = outcomes.get(code, "killed")
    return outcome, tests[int.from_bytes(test_index[:], "little")].nodeid if outcome == "killed" else None


def _find_functions(module: Module) -> dict[str, list[list[types.FunctionType]]]:
    """By name, the live functions of each code object of `Module.compile_functions`."""
    file = str(module.path)
    functions = [f for f in gc.get_objects() if type(f) is types.FunctionType and f.__code__.co_filename == file]
    found = defaultdict(list)
    for f in functions:
        found[f.__code__.co_qualname, f.__code__.co_firstlineno].append(f)
    return {
        name: [found[name, code.co_firstlineno] for code in codes] for name, codes in module.compile_functions().items()
    }


def _replace_code(module: Module, function: str, functions: dict[str, list[list[types.FunctionType]]]) -> bool:
    """Replace the code of all live functions of this name by that of the mutated tree; return whether there are any."""
    replaced = False
    for functions_of_code, code in zip(functions[function], module.compile_functions()[function], strict=True):
        for f in functions_of_code:
            # A mutant without the only `super()` has no cell for the class: it is added, and not read.
            f.__code__ = code if code.co_freevars else code.replace(co_freevars=f.__code__.co_freevars)
            replaced = True
    return replaced


def _protocol(session: pytest.Session, i: int) -> None:
    following = session.items[i + 1] if i + 1 < len(session.items) else None
    session.items[i].config.hook.pytest_runtest_protocol(item=session.items[i], nextitem=following)


def _processor_seconds() -> float:
    """The CPU time of this process and the children that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _in_child(run: Callable[[], int], limit: float, silent: bool = True) -> int | None:
    """The exit status of `run` in a forked child; None if it takes longer than `limit` seconds."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setsid()
            if silent:
                nowhere = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(nowhere, stream)
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                limited = pages * resource.getpagesize() + _MEMORY
                resource.setrlimit(resource.RLIMIT_AS, (limited, resource.getrlimit(resource.RLIMIT_AS)[1]))
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
        with contextlib.suppress(ProcessLookupError):  # including its children
            os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class _DeterministicHypothesis:
    """Makes Hypothesis use the same examples every time, without deadline."""

    def pytest_configure(self) -> None:
        import torch
        from hypothesis import HealthCheck, settings

        torch.testing.assert_close(torch.ones(1), torch.ones(1))  # its first call imports for seconds

        settings.register_profile(
            "mutation", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        settings.load_profile("mutation")
