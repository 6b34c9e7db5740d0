"""The table of what became of the mutants, and the page that has it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

_DEAD = ("killed", "timeout")
_PAGE = """# How many faults the tests notice

Made by `python tools/mutation/run.py --page docs/mutation.md`.

One fault at a time is put into the body of a function: a comparison, an operator, a constant, a condition, a bound of a
slice, a returned value, a call or a `raise` left out. Then the tests of the module that ran the line are run, until one
fails. Texts for people are left alone. "Killed" counts the mutants that a test noticed, or that ran past their limit of
time. "Equivalent" are those that do what the original does, or differ in speed or memory alone: each has its reason in
`tools/mutation/equivalent.toml`.

{table}

{survivors}

{versions} {seconds} seconds, all modules one after the other, with one thread.
"""


def table(results: Mapping[str, Any], equivalent: Mapping[str, str]) -> str:
    """Markdown: a line for each module, and one for all.

    Args:
        results: by module, the `mutants`, each with its outcome, and how many they were drawn `of`.
        equivalent: the reason by mutant.
    """
    sampled = any(len(result["mutants"]) < result["of"] for result in results.values())
    rows = []
    for name, parts in [*((name, [result]) for name, result in results.items()), ("all", list(results.values()))]:
        outcomes = [(key, outcome) for part in parts for key, outcome in part["mutants"].items()]
        counts = Counter(outcome in _DEAD for _, outcome in outcomes)
        same = sum(key in equivalent and outcome not in _DEAD for key, outcome in outcomes)
        killed, left = counts[True], counts[False] - same
        share = (killed + same) / max(1, len(outcomes))
        drawn = [f"{len(outcomes)} of {sum(part['of'] for part in parts)}"] if sampled else [len(outcomes)]
        rows.append([name, *drawn, killed, same, left, f"{share:.1%}"])
    columns = ["module", "mutants", "killed", "equivalent", "survived", "killed or equivalent"]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def page(results: Mapping[str, Any], equivalent: Mapping[str, str]) -> str:
    """The whole page; `results` as for `table`."""
    alive = [
        f"- `{' '.join(key.split())}`"
        for result in results.values()
        for key, outcome in result["mutants"].items()
        if outcome not in _DEAD and key not in equivalent
    ]
    seeds = sorted({result["seed"] for result in results.values() if len(result["mutants"]) < result["of"]})
    drawn = f"Mutants were drawn at random, with seed {', '.join(map(str, seeds))}.\n\n" if seeds else ""
    runs = {tuple(result["versions"].items()) for result in results.values()}
    versions = " ".join(", ".join(f"{name} {number}" for name, number in run) + "." for run in sorted(runs))
    return _PAGE.format(
        table=table(results, equivalent),
        survivors=drawn + ("Survivors:\n\n" + "\n".join(alive) if alive else "None survived."),
        versions=versions,
        seconds=f"{sum(result['seconds'] for result in results.values()):,}",
    )
