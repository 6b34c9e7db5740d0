"""Several properties of the same variants: their Pareto front, and a table of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from molattn.errors import UsageError
from molattn.inference.measured_pairs import MeasuredTable
from molattn.inference.predict_variants import find_variants, what_if
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.what_if import WhatIf, WhatIfOptions, WhatIfRow

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Property:
    """One property of the variants.

    Attributes:
        name: its name, unique among the properties.
        predictor: a model.
        options: its target and goal.
        table: measured molecules; None for none.
    """

    name: str
    predictor: RowPredictor
    options: WhatIfOptions
    table: MeasuredTable | None


def predict_trade_offs(properties: Sequence[Property], smiles: str, num_workers: int = 0) -> "TradeOffs":
    """Predict several properties of the same variants of a molecule.

    Variants come from the transforms of all tables.

    Raises:
        SmilesError: the molecule cannot be read.
        InputError: it has no prediction.
        UsageError: two properties of one name; and as `molattn.Predictor.what_if`.
    """
    names = [p.name for p in properties]
    if len(set(names)) < len(names):
        raise UsageError(f"two properties have the same name: {', '.join(names)}")
    max_atoms = min(p.predictor.read_options.max_atoms for p in properties)
    variants = find_variants(smiles, [p.table for p in properties], properties[0].options.min_pairs, max_atoms)
    results = [what_if(p.predictor, smiles, p.options, p.table, variants, num_workers) for p in properties]
    return TradeOffs(results, names)


def pareto_front(values: np.ndarray) -> np.ndarray:
    """(n,) whether each row of (n, k) numbers, the larger the better, is dominated by no other row.

    A row is dominated by one that is at least as good in every column, and better in one.

    >>> pareto_front(np.array([[1.0, 3.0], [2.0, 2.0], [1.0, 2.0]])).tolist()
    [True, True, False]
    """
    front = np.ones(len(values), dtype=bool)
    for i, row in enumerate(values):
        front[i] = not ((values >= row).all(1) & (values > row).any(1)).any()
    return front


class TradeOffs:
    """The variants of a molecule by several properties.

    Args:
        results: one for each property, of the same parent and the same variants.
        names: the names of the properties.

    Attributes:
        results, names: as the arguments.
        rows: for each variant that all models predict, its row in each result: first those of the Pareto front, then
            by the first property.
        front: whether each of them is on the Pareto front of the predicted changes: no other variant, nor the parent,
            is at least as good in all properties and better in one. Of one property it is the best.
    """

    def __init__(self, results: Sequence[WhatIf], names: Sequence[str]):
        self.results, self.names = tuple(results), tuple(names)
        by_smiles = [{row.variant.smiles: row for row in result.rows} for result in results]
        shared = [s for s in by_smiles[0] if all(s in found for found in by_smiles[1:])]
        rows = [tuple(found[s] for found in by_smiles) for s in shared]
        signs = np.array([1.0 if result.goal == "maximize" else -1.0 for result in results])
        changes = np.array([[0.0] * len(signs), *([row.change for row in variant] for variant in rows)]) * signs
        front = pareto_front(changes)[1:]
        order = np.lexsort((np.arange(len(rows)), ~front)) if len(signs) > 1 else np.arange(len(rows))
        self.rows: tuple[tuple[WhatIfRow, ...], ...] = tuple(rows[i] for i in order)
        self.front: tuple[bool, ...] = tuple(front[order].tolist())

    def listed(self, size: int) -> tuple[int, ...]:
        """The indices of the rows that a page lists: by each property the best and the worst of each atom, and others.

        The others are the first ones; with them there are `size`, unless those of the atoms alone are more.
        """
        best, worst = self.rows_of_atoms()
        chosen = best | worst
        others = (row for row in range(len(self.rows)) if row not in chosen)
        return tuple(sorted([*chosen, *islice(others, max(0, size - len(chosen)))]))

    def rows_of_atoms(self) -> tuple[set[int], set[int]]:
        """The indices of the rows with the best change of a property at an atom, and of those with the worst."""
        all_best, all_worst = set[int](), set[int]()
        for t, result in enumerate(self.results):
            changes = np.array([row[t].change for row in self.rows])
            order = np.argsort(-changes if result.goal == "maximize" else changes, kind="stable").tolist()
            best, worst = dict[int, int](), dict[int, int]()
            for row in order:
                for atom in self.rows[row][t].variant.atoms:
                    best.setdefault(atom, row)
                    worst[atom] = row
            all_best.update(best.values())
            all_worst.update(worst.values())
        return all_best, all_worst

    def to_frame(self) -> "pa.Table":
        """A table with a row for each variant; the names of transformed numbers begin with that of the transform."""
        import pyarrow as pa

        columns: dict[str, Any] = {
            "smiles": [row[0].variant.smiles for row in self.rows],
            "change": [row[0].variant.name for row in self.rows],
            "kind": [row[0].variant.kind for row in self.rows],
            "atoms": [list(row[0].variant.atoms) for row in self.rows],
        }
        for k, (name, result) in enumerate(zip(self.names, self.results, strict=True)):
            property_rows = [row[k] for row in self.rows]
            name = f"{result.transform}_{name}" if result.transform else name
            columns |= {
                f"{name}_pred": [row.prediction for row in property_rows],
                f"{name}_change": [row.change for row in property_rows],
                f"{name}_change_lower": [row.lower for row in property_rows],
                f"{name}_change_upper": [row.upper for row in property_rows],
                f"{name}_pairs": [0 if row.effect is None else row.effect.count for row in property_rows],
                f"{name}_measured_change": [None if row.effect is None else row.effect.mean for row in property_rows],
            }
            if any(row.in_domain is not None for row in result.rows):
                columns[f"{name}_in_domain"] = [row.in_domain for row in property_rows]
        if len(self.names) > 1:
            columns["pareto_front"] = list(self.front)
        return pa.table(
            columns
            | {
                "sa_score": pa.array([row[0].accessibility for row in self.rows], pa.float64()),
                "alerts": pa.array([list(row[0].alerts) for row in self.rows], pa.list_(pa.string())),
                "new_alerts": pa.array([list(row[0].new_alerts) for row in self.rows], pa.list_(pa.string())),
            }
        )
