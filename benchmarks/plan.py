"""The cost of a hundred million and of ten billion molecules, and the limits that are reached first: docs/scale.md.

    python benchmarks/plan.py -o docs/scale.md [--predict-us 120 ...]

Everything is computed from the unit costs, which are options; their defaults were measured (docs/results).
Stragglers, failures and retries are simulated, with a seed. Nothing is measured here, and torch is not imported.
"""

import argparse
import heapq
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from report import markdown

_SLOPE = 1.2  # of the logarithm of a prediction's time over that of the atoms
_STAGES = "[stages](results/prediction_speed.md#where-the-time-of-a-prediction-goes)"
_TRAINING = "[training at length](results/training_speed.md#training-at-length)"
SIZES = {"100 million": 10**8, "10 billion": 10**10}


def _cost(default: float, unit: str, what: str, source: str) -> float:
    return field(default=default, metadata={"unit": unit, "what": what, "source": source})


@dataclass(frozen=True)
class Costs:
    """The costs of one molecule, one start and one machine."""

    read_us: float = _cost(45, "us of a core", "a molecule from its SMILES", f"{_STAGES}: molecules from SMILES")
    predict_us: float = _cost(
        120,
        "us of a core",
        "a prediction, from CSV to CSV, reading included",
        "[from CSV to CSV](results/prediction_speed.md#from-csv-to-csv): 8,363 molecules a CPU second",
    )
    scan_us: float = _cost(1, "us of a core", "a row of a table read as text", f"{_STAGES}: the table is read")
    train_us: float = _cost(
        180,
        "us of a core",
        "a molecule in an epoch of training",
        "[an epoch](results/training_speed.md#an-epoch): 5,562 molecules a second of CPU",
    )
    atoms: float = _cost(16, "atoms", "in the mean molecule of the figures above", "the mean of the NCI's molecules")
    start_s: float = _cost(
        1.24,
        "s of a core",
        "a start of `molattn predict`",
        "[from CSV to CSV](results/prediction_speed.md#from-csv-to-csv): one molecule",
    )
    input_bytes: float = _cost(
        41,
        "bytes",
        "a row of the input",
        "[prediction at length](results/prediction_speed.md#prediction-at-length): 41 MB, a million rows",
    )
    output_bytes: float = _cost(
        55, "bytes", "a row of the result, as CSV", "the input's row, and 14 for an answer and `ok`: 2,000 of the NCI"
    )
    store_bytes: float = _cost(
        803, "bytes", "a molecule in the store that training reads", f"{_TRAINING}: 803 MB, a million rows"
    )
    train_memory_bytes: float = _cost(
        900,
        "bytes",
        "a row of the table in a training's memory",
        f"{_TRAINING}: 1,403 MiB after a million rows are read, 541 before",
    )
    model_bytes: float = _cost(0.7e6, "bytes", "a model of the default size", "bases/nci/model.safetensors")
    block_rows: float = _cost(1e6, "rows", "a block: one file, one command", "chosen below")
    cores: float = _cost(1_000, "cores", "to share the work", "an assumption")
    disk_bytes_s: float = _cost(1e9, "bytes a second", "of the disk that all cores share", "an assumption")
    node_memory: float = _cost(256e9, "bytes", "of memory in one machine", "an assumption")
    failures: float = _cost(0.01, "an hour", "failures of a worker", "an assumption: one in four days")
    slow_share: float = _cost(0.02, "of the workers", "are slow", "an assumption")
    slow_times: float = _cost(4, "times as long", "is what those take", "an assumption")
    notice_s: float = _cost(60, "s", "until a failure is noticed and the worker replaced", "an assumption")

    def hours(self, microseconds: float, rows: float) -> float:
        """Core-hours for that many rows."""
        return microseconds * rows / 3.6e9

    @property
    def block_s(self) -> float:
        """Seconds of a block, start included."""
        return self.start_s + self.block_rows * self.predict_us / 1e6


# The simulation


@dataclass(frozen=True)
class Cluster:
    """Workers that take blocks from one queue, and their failures.

    Attributes:
        workers: the number of workers.
        block_s: seconds of work in a block on an ordinary worker; a start is included.
        failures: failures of one worker per hour; its block is restarted from the beginning.
        slow_share, slow_times: the share of slow workers, and how many times longer they take.
        notice_s: seconds until a failed worker is replaced and its block is in the queue again.
        backups: whether an idle worker runs a copy of the block that would end last; the first result is used.
        log_std: the standard deviation of the logarithm of the time of a block.
    """

    workers: int
    block_s: float
    failures: float
    slow_share: float
    slow_times: float
    notice_s: float
    backups: bool = True
    log_std: float = 0.1


@dataclass
class Outcome:
    """The result of a simulation: total seconds, wasted seconds of workers, restarted blocks, and backup copies."""

    seconds: float = 0.0
    wasted: float = 0.0
    retries: float = 0
    copies: float = 0


def simulate(cluster: Cluster, blocks: int, seed: int) -> Outcome:
    """Simulate the run of that many blocks."""
    rng, outcome = random.Random(seed), Outcome()
    speeds = [cluster.slow_times if rng.random() < cluster.slow_share else 1.0 for _ in range(cluster.workers)]
    waiting = list(range(blocks))[::-1]
    running: dict[int, dict[int, tuple[float, float]]] = {}  # block: worker: start, expected end
    done = 0
    idle: list[int] = []
    events = [(0.0, worker, -1, "free") for worker in range(cluster.workers)]
    heapq.heapify(events)

    def start_block(worker: int, now: float) -> None:
        if waiting:
            block = waiting.pop()
        elif cluster.backups and (lone := [b for b, of in running.items() if len(of) == 1 and worker not in of]):
            block = max(lone, key=lambda b: min(end for _, end in running[b].values()))
            if now + cluster.block_s >= min(end for _, end in running[block].values()):
                return idle.append(worker)  # the copy would not end first
            outcome.copies += 1
        else:
            return idle.append(worker)
        end = now + cluster.block_s * speeds[worker] * math.exp(rng.gauss(0.0, cluster.log_std))
        fails = now + rng.expovariate(cluster.failures / 3600) if cluster.failures else math.inf
        running.setdefault(block, {})[worker] = (now, end)
        heapq.heappush(events, (min(end, fails), worker, block, "done" if end <= fails else "failed"))
        return None

    while done < blocks:
        now, worker, block, what = heapq.heappop(events)
        if what == "free":
            start_block(worker, now)
            continue
        if worker not in running.get(block, {}):
            continue  # another copy has ended first
        start, _ = running[block].pop(worker)
        if what == "failed":
            outcome.wasted += now - start
            outcome.retries += 1
            speeds[worker] = 1.0  # replaced by another worker
            heapq.heappush(events, (now + cluster.notice_s, worker, -1, "free"))
            if not running[block]:
                del running[block]
                heapq.heappush(events, (now + cluster.notice_s, cluster.workers, block, "again"))
                running[block] = {cluster.workers: (now, now)}
            continue
        if what == "again":
            del running[block]
            waiting.append(block)
            if idle:
                start_block(idle.pop(), now)
            continue
        done += 1
        for other, (start, _) in running.pop(block).items():
            outcome.wasted += now - start
            start_block(other, now)
        outcome.seconds = now
        start_block(worker, now)
    return outcome


def _mean(cluster: Cluster, blocks: int, seeds: int = 3) -> Outcome:
    runs = [simulate(cluster, blocks, seed) for seed in range(seeds)]
    return Outcome(*(sum(getattr(run, f.name) for run in runs) / seeds for f in fields(Outcome)))


# The page


def page(costs: Costs) -> str:
    """docs/scale.md."""
    return "\n\n".join([arithmetic(costs), _simulated(costs).strip(), _advice(costs).strip()]) + "\n"


def arithmetic(costs: Costs) -> str:
    """The part of the page that needs no simulation."""
    return "\n\n".join(text.strip() for text in (_opening(costs), _units(costs), _bill(costs), _breaks(costs)))


def command(costs: Costs) -> str:
    """The command that writes the page."""
    changed = [f for f in fields(costs) if getattr(costs, f.name) != f.default]
    options = [f" --{f.name.replace('_', '-')} {getattr(costs, f.name):g}" for f in changed]
    return f"python benchmarks/plan.py -o docs/scale.md{''.join(options)}"


def _opening(costs: Costs) -> str:
    block = int(costs.block_rows)
    return f"""
# Past one machine

Made by `{command(costs)}` from the unit costs below, each an option of that command. No run of
this size was made: the figures are arithmetic on what was measured on one core, and a simulation where arithmetic is
not enough. The plan they are of: the input is cut into blocks of {block:,} rows, each a file of its own, for one
`molattn predict RUN block.csv -o result.csv --resume` on one core; a block that fails is begun again. Nothing is shared
between blocks but the model, {costs.model_bytes / 1e6:.1f} MB."""


def _units(costs: Costs) -> str:
    rows = [
        [f"`--{f.name.replace('_', '-')}`", f"{getattr(costs, f.name):,g}", f.metadata["unit"], f.metadata["what"],
         f.metadata["source"]]
        for f in fields(costs)
    ]  # fmt: skip
    table = markdown(["option", "value", "unit", "what", "where from"], rows)
    larger = {atoms: (atoms / costs.atoms) ** _SLOPE for atoms in (26, 40)}
    return (
        f"## Unit costs\n\n{table}\n\nNo GPU was measured. A prediction grows with the atoms to the power of "
        f"{_SLOPE:g} ([how time grows](results/scaling.md#how-time-grows),\n10 to 320 atoms): molecules of 26 atoms, "
        f"as libraries for screening have, take {larger[26]:.1f} times the core-hours of\n"
        f"predictions below, those of 40 atoms {larger[40]:.1f} times."
    )


def _bill(costs: Costs) -> str:
    rows = [
        ["molecules from SMILES alone, core-hours", "N x read", *(_n(costs.hours(costs.read_us, n)) for n in _sizes())],
        ["prediction, core-hours", "N x predict", *(_n(costs.hours(costs.predict_us, n)) for n in _sizes())],
        ["starts, core-hours", "N / block x start", *(_n(_blocks(costs, n) * costs.start_s / 3600) for n in _sizes())],
        [
            f"prediction on {costs.cores:,.0f} cores, hours",
            "the two above / cores",
            *(_n(_blocks(costs, n) * costs.block_s / 3600 / costs.cores) for n in _sizes()),
        ],
        ["an epoch of training, core-hours", "N x train", *(_n(costs.hours(costs.train_us, n)) for n in _sizes())],
        ["input on disk", "N x input", *(_size(n * costs.input_bytes) for n in _sizes())],
        ["result on disk", "N x output", *(_size(n * costs.output_bytes) for n in _sizes())],
        ["results while they are joined", "2 x N x output", *(_size(2 * n * costs.output_bytes) for n in _sizes())],
        ["store of a training on disk", "N x store", *(_size(n * costs.store_bytes) for n in _sizes())],
        ["memory of a training", "N x train memory", *(_size(n * costs.train_memory_bytes) for n in _sizes())],
        [
            "over the network: input three times, result twice, models",
            "N (3 input + 2 output) + N / block x model",
            *(_size(_moved(costs, n)) for n in _sizes()),
        ],
        [
            f"network at {costs.cores:,.0f} cores, a second",
            "the line above / hours",
            *(_size(_moved(costs, n) / (_blocks(costs, n) * costs.block_s / costs.cores)) for n in _sizes()),
        ],
        ["files of input and result", "2 N / block", *(_n(2 * _blocks(costs, n)) for n in _sizes())],
    ]
    return (
        f"## The bill\n\n{markdown(['', 'arithmetic', *SIZES], rows)}\n\n"
        "A block is read three times, for its checksum, to count and check its rows, and to predict them; its result "
        "is written\nonce as parts and once joined."
    )


def _breaks(costs: Costs) -> str:
    # Every shard of one file reads all of it for its checksum and its count, and half of it, on average, to get there.
    passes = 2.5
    tenth = 0.1 * costs.predict_us / (passes * costs.scan_us)
    disk_cores = costs.disk_bytes_s / (3 * costs.input_bytes + 2 * costs.output_bytes) * costs.predict_us / 1e6
    fits = costs.node_memory / costs.train_memory_bytes
    week = 7 * 86_400 * 1e6 / costs.train_us
    mean_h = 1 / costs.failures if costs.failures else math.inf
    wait = costs.cores * costs.failures
    n = SIZES["100 million"]
    shards = n / costs.block_rows
    rows = [
        ["`--shard i/n` of one file", f"more than {tenth:,.0f} shards", (
            f"each shard reads the whole file {passes:g} times on average: scanning is a tenth of the work at "
            f"{tenth:,.0f} shards, and {passes * shards * costs.scan_us / costs.predict_us:.0%} of it at the "
            f"{shards:,.0f} of 100 million molecules ({_size(passes * shards * n * costs.input_bytes)} read)"
        ), "cut the file into blocks first"],
        ["an epoch of training on one core", f"{_n(week / 1e6)} million molecules", (
            "it takes a week; more cores help a batch of 32 small molecules little"
        ), "train on a sample; predict all"],
        ["a training's memory", f"{_n(fits / 1e6)} million molecules", (
            f"table, targets and split fill {_size(costs.node_memory)}"
        ), "train on a sample"],
        ["the shared disk", f"{disk_cores:,.0f} cores", (
            f"together they move {_size(costs.disk_bytes_s)} a second"
        ), "blocks on the machines' own disks; Parquet"],
        ["a worker that never fails", f"{costs.cores:,.0f} cores", (
            f"{wait:,.0f} failures an hour; one core has its first after {mean_h:,.0f} hours on average"
        ), "blocks and `--resume`: below"],
        ["one folder of files", f"{SIZES['10 billion'] / costs.block_rows:,.0f} blocks of 10 billion", (
            "each with its result; listings get slow beyond some tens of thousands"
        ), "a folder for each thousand"],
    ]  # fmt: skip
    table = markdown(["what breaks", "at", "because", "instead"], rows)
    return f"## What breaks first\n\n{table}"


def _simulated(costs: Costs) -> str:
    workers = int(costs.cores)
    n = SIZES["10 billion"]
    columns = [
        "rows in a block", "blocks", "minutes of one", "hours, as divided", "hours", "hours without backups",
        "core-hours wasted", "retries",
    ]  # fmt: skip
    rows = []
    for size in (10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7):
        cluster, blocks = _cluster(costs, size, workers), -(-n // size)
        found, alone = _mean(cluster, blocks), _mean(_changed(cluster, backups=False), blocks)
        divided = blocks * cluster.block_s / workers
        rows.append([
            f"{size:,}", f"{blocks:,}", f"{cluster.block_s / 60:.1f}", _n(divided / 3600), _n(found.seconds / 3600),
            _n(alone.seconds / 3600), f"{found.wasted / (divided * workers):.1%}", f"{found.retries:,.0f}",
        ])  # fmt: skip
    by_size = markdown(columns, rows)
    rows = []
    for failures in (0.0, 0.001, 0.01, 0.1, 1.0):
        for slow in (0.0, costs.slow_share):
            cluster = _changed(_cluster(costs, int(costs.block_rows), workers), failures=failures, slow_share=slow)
            blocks = -(-n // int(costs.block_rows))
            found, alone = _mean(cluster, blocks), _mean(_changed(cluster, backups=False), blocks)
            wasted = f"{found.wasted / (blocks * cluster.block_s):.1%}"
            rows.append([
                f"{failures:g}", f"{slow:.0%}", _n(found.seconds / 3600), _n(alone.seconds / 3600), wasted,
                f"{found.retries:,.0f}", f"{found.copies:,.0f}",
            ])  # fmt: skip
    by_failures = markdown(
        ["failures of a worker, an hour", "slow workers", "hours", "without backups", "wasted", "retries", "backups"],
        rows,
    )
    best = math.sqrt(2 * costs.start_s * 3600 / costs.failures) if costs.failures else math.inf
    return f"""
## Stragglers, failures, retries

10 billion molecules on {workers:,} cores, simulated (`simulate` in benchmarks/plan.py; the mean of seeds 0 to 2).
A worker takes the next block when it is free. The time of a block varies by a tenth; {costs.slow_share:.0%} of the
workers take {costs.slow_times:g} times as long; a worker fails {costs.failures:g} times an hour, its block begins
again from its start, and {costs.notice_s:g} s later another takes its place. A backup is a second copy of the block
that would end last, begun by a worker that has nothing else to do; the first result counts, and what the other had
done is wasted.

{by_size}

Without stragglers a start costs c and a failure half a block, so the waste is c / T + f T / 2 for blocks of T seconds,
least at T = sqrt(2 c / f) = {best / 60:.0f} minutes here, and flat around it. What decides is the end, when the last
block of a slow worker is waited for: few large blocks leave many cores idle, and only backups help.

With blocks of {costs.block_rows:,.0f} rows:

{by_failures}"""


def _advice(costs: Costs) -> str:
    parts = costs.block_rows / (16 * 1024)
    return f"""
## What follows

- Blocks of {costs.block_rows:,.0f} rows: {costs.block_s / 60:.0f} minutes each, so that starts are
  {costs.start_s / costs.block_s:.1%} of the work and a failure costs minutes.
- With `--resume` and a disk that outlives the worker, a failure costs less than what is simulated: one of the
  {parts:.0f} parts of a block, not the block.
- An engine that gives idle workers copies of the last blocks; without one, blocks a tenth as large.
- The cost is in the model: reading the molecules is {costs.read_us / costs.predict_us:.0%} of a prediction."""


def _cluster(costs: Costs, rows: int, workers: int) -> Cluster:
    seconds = costs.start_s + rows * costs.predict_us / 1e6
    return Cluster(workers, seconds, costs.failures, costs.slow_share, costs.slow_times, costs.notice_s)


def _changed(cluster: Cluster, **changes: float) -> Cluster:
    return Cluster(**{**vars(cluster), **changes})  # pyright: ignore[reportArgumentType]


def _sizes() -> Iterable[int]:
    return SIZES.values()


def _blocks(costs: Costs, rows: int) -> int:
    return math.ceil(rows / costs.block_rows)


def _moved(costs: Costs, rows: int) -> float:
    return rows * (3 * costs.input_bytes + 2 * costs.output_bytes) + _blocks(costs, rows) * costs.model_bytes


def _n(number: float) -> str:
    """A number with three significant digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _size(count: float) -> str:
    """A number of bytes with a unit."""
    for power, unit in ((5, "PB"), (4, "TB"), (3, "GB"), (2, "MB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.3g} {unit}"
    return f"{count / 1000:.3g} kB"


def parse_arguments(arguments: Sequence[str] | None = None) -> tuple[Costs, Path | None]:
    """The costs from the command line, and the path of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    for f in fields(Costs):
        text = f"{f.metadata['what']}, {f.metadata['unit']}"
        parser.add_argument(
            f"--{f.name.replace('_', '-')}", type=float, default=f.default, help=text.replace("%", "%%")
        )
    parser.add_argument("-o", "--output", type=Path, default=None, help="printed by default")
    options = vars(parser.parse_args(arguments))
    output = options.pop("output")
    return Costs(**options), output


def main() -> None:
    """Write the page."""
    costs, output = parse_arguments()
    text = page(costs)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
