"""Molecules that tests share: what ordinary tables hold, and what breaks careless programs."""

from molattn.data import load_card, read_table

SPECIAL = (
    "C",  # one atom
    "[H][H]",
    "[Na+].[Cl-]",  # two fragments, one atom each
    "CC(=O)[O-].[NH4+]",
    "C[C@H](N)C(=O)O",
    "C[C@@H](N)C(=O)O",
    "C/C=C/C",
    "C/C=C\\C",
    "F/C=C/[C@H](O)Cl",
    "C1CC2CCC1CC2",
    "c1ccc2ccccc2c1",
    "C[N+](C)(C)CC(=O)[O-]",
    "[O-][n+]1ccccc1",
    "C#CC#N",
)


def esol(count: int) -> tuple[list[str], list[float]]:
    """Every k-th row of ESOL, `count` of them: SMILES and log solubility."""
    rows = read_table(load_card("esol").path).rows
    chosen = rows[:: len(rows) // count][:count]
    return [r[0] for r in chosen], [float(r[1]) for r in chosen]
