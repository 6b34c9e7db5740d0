"""Attributions as a table, for `molattn explain -o x.csv`."""

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molattn.explain import Attribution


def attribution_table(attributions: Sequence["Attribution | None"]) -> str:
    """CSV with a line for each atom, for the constant and other terms, for the prediction and its probability."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("row", "smiles", "target", "method", "part", "atom", "element", "value", "unit"))
    for row, a in enumerate(attributions):
        if a is None:
            continue
        key = (row, a.smiles, a.target, a.method)
        unit = a.unit if a.has_unit else ""
        for i, (symbol, value) in enumerate(zip(a.symbols, a.values.tolist(), strict=True)):
            writer.writerow((*key, "atom", i, symbol, repr(value), unit))
        # Pairs: a descriptor may have any name.
        for part, value in (("constant", a.constant), *a.other_terms.items(), ("prediction", a.prediction)):
            if value is not None:
                writer.writerow((*key, part, "", "", repr(float(value)), a.unit))
        if a.probability is not None:
            probability = a.probability if a.calibrated_probability is None else a.calibrated_probability
            writer.writerow((*key, "probability", "", "", repr(probability), ""))
    return text.getvalue()
