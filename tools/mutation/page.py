"""The table of the outcomes of the mutants, and the page with it."""

from collections.abc import Mapping
from typing import Any

_PAGE = """# Mutation testing

Made by `python tools/mutation/run.py --page docs/mutation.md`.

A mutant has one change in the body of a function: of a comparison, an operator, a constant, a condition, a bound of a
slice, a returned value, or a removed call or `raise`. The tests of the module that reach the line are run until one
fails. Messages are not changed. "Killed" mutants are detected by a test, or exceed their time limit. "Equivalent" ones
behave as the original, or differ only in speed or memory: the reasons are in `tools/mutation/equivalent.toml`.

{table}

{survivors}

{versions} {seconds} seconds with one thread, for the last run of each module, in
which mutants killed before were not run again.
"""


def survivors(result: Mapping[str, Any], equivalent: Mapping[str, str]) -> list[str]:
    """The mutants of a module that no test detected and that are not equivalent to the original."""
    alive = (key for key, outcome in result["not_killed"].items() if outcome != "timeout")
    return [key for key in alive if key not in equivalent]


def table(results: Mapping[str, Any], equivalent: Mapping[str, str]) -> str:
    """A Markdown table with a row for each module, and one for all.

    Args:
        results: by module, how many mutants were `tried` `of` how many, and the outcomes of those `not_killed`.
        equivalent: the reasons by mutant.
    """
    sampled = any(result["tried"] < result["of"] for result in results.values())
    rows = []
    for name, parts in [*((name, [result]) for name, result in results.items()), ("all", list(results.values()))]:
        tried = sum(part["tried"] for part in parts)
        left = sum(len(survivors(part, equivalent)) for part in parts)
        alive = sum(outcome != "timeout" for part in parts for outcome in part["not_killed"].values())
        drawn = f"{tried} of {sum(part['of'] for part in parts)}" if sampled else tried
        rows.append([name, drawn, tried - alive, alive - left, left, f"{1 - left / max(1, tried):.1%}"])
    columns = ["module", "mutants", "killed", "equivalent", "survived", "killed or equivalent"]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def page(results: Mapping[str, Any], equivalent: Mapping[str, str]) -> str:
    """The whole page; `results` as for `table`."""
    alive = [f"- `{' '.join(key.split())}`" for result in results.values() for key in survivors(result, equivalent)]
    seeds = sorted({result["seed"] for result in results.values() if result["tried"] < result["of"]})
    drawn = f"Mutants were drawn at random, with seed {', '.join(map(str, seeds))}.\n\n" if seeds else ""
    runs = {tuple(result["versions"].items()) for result in results.values()}
    versions = " ".join(", ".join(f"{name} {number}" for name, number in run) + "." for run in sorted(runs))
    return _PAGE.format(
        table=table(results, equivalent),
        survivors=drawn + ("Survivors:\n\n" + "\n".join(alive) if alive else "None survived."),
        versions=versions,
        seconds=f"{sum(result['seconds'] for result in results.values()):,}",
    )
