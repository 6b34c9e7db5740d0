"""The output of `molattn benchmark`: scores with intervals and ranks, and the published results next to them."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molattn.cli.terminal import print_json, print_line

if TYPE_CHECKING:
    from molattn.benchmark import TaskSummary


def report(group: str, summaries: "Sequence[TaskSummary]", folder: Path, as_json: bool, quiet: bool) -> None:
    """Print the table of a benchmark, or the same as JSON."""
    from molattn.benchmark import mean_rank

    ranked, reads = mean_rank(summaries), sum(len(s.scores) for s in summaries if s.part == "all")
    if as_json:
        content = {"benchmark": group, "folder": str(folder), "test_label_reads": reads}
        content |= {"mean_rank": ranked and ranked[0], "ranked_tasks": ranked and ranked[1]}
        print_json({**content, "tasks": [_as_dict(summary) for summary in summaries]})
        return
    if quiet:
        return
    print_line()
    if any(summary.part == "cliffs" for summary in summaries):
        _print_cliffs(summaries)
    else:
        _print_leaderboards(summaries)
        if ranked:
            print_line(f"Mean rank: {ranked[0]:.1f}, over {ranked[1]} tasks.")
    print_line()
    print_line(
        f"The labels of test molecules were read for each of the {reads} trainings: settings that are chosen by these "
        f"scores are fitted to them."
    )
    print_line(f"Saved in {folder}: scores.csv, predictions/.")


def _as_dict(summary: "TaskSummary") -> dict[str, Any]:
    """A summary as JSON."""
    content = {key: value for key, value in asdict(summary).items() if key not in ("group", "published")}
    content |= {"mean": summary.mean, "std": summary.std, "rank": summary.rank, "rank_range": summary.rank_range}
    names = [entry.name for entry in summary.indistinguishable]
    return content | {"published_entries": len(summary.published), "indistinguishable": names}


def _print_leaderboards(summaries: "Sequence[TaskSummary]") -> None:
    """Print a line for each task, with its rank in the leaderboard."""
    rows = [["task", "metric", "score", "95% interval", "rank", "rank range", "test (both sides)"]]
    for s in summaries:
        rank_range = "" if s.rank_range is None else f"ranks {s.rank_range[0]} to {s.rank_range[1]}"
        rank = "" if s.rank is None else f"{s.rank} of {len(s.published) + 1}"
        rows.append([s.task, _label(s.metric), _score(s), _interval(s), rank, rank_range, f"{s.test} ({s.both_sides})"])
    _print_rows(rows)
    print_line()
    print_line("score: mean and standard deviation over the seeds. interval: bootstrap over the test molecules.")
    print_line("rank: 1 plus the number of better entries. rank range: the ranks of the scores in the interval.")
    print_line("both sides: test molecules with the first InChIKey block of a labeled one.")
    print_line(f"published: {_source('tdc')}.")


def _print_cliffs(summaries: "Sequence[TaskSummary]") -> None:
    """Print a line for each target, with its score on activity cliffs, and the published means."""
    from molattn.benchmark.published import load_published

    rows = [["target", "metric", "all", "95% interval", "on cliffs", "test (both sides)"]]
    cliffs = {summary.task: summary for summary in summaries if summary.part == "cliffs"}
    everything = [summary for summary in summaries if summary.part == "all"]
    for s in everything:
        on_cliffs = _score(cliffs[s.task]) if s.task in cliffs else ""
        rows.append([s.task, _label(s.metric), _score(s), _interval(s), on_cliffs, f"{s.test} ({s.both_sides})"])
    _print_rows(rows)
    print_line()
    means = [statistics.fmean(s.mean for s in part) for part in (everything, cliffs.values()) if part]
    print_line(f"Mean over {len(everything)} targets, all and on cliffs: {' and '.join(f'{m:.3f}' for m in means)}.")
    print_line(f"Published: {_source('moleculeace')}:")
    for name, (both, on_cliffs) in load_published()["moleculeace"].items():
        print_line(f"  {name}: {both:.3f} and {on_cliffs:.3f}")


def _source(group: str) -> str:
    """Where the published results are from."""
    from molattn.benchmark.published import load_published

    return load_published()["sources"][group].partition(":")[0]


def _score(summary: "TaskSummary") -> str:
    spread = f" ± {summary.std:.3f}" if len(summary.scores) > 1 else ""
    return f"{summary.mean:.3f}{spread}"


def _interval(summary: "TaskSummary") -> str:
    return f"{summary.lower:.3f} to {summary.upper:.3f}"


def _label(metric: str) -> str:
    from molattn.training.metrics import METRICS

    return METRICS[metric].label


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print cells in columns; lines are not wrapped."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print_line("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
