"""Random molecules, with stereocentres and double bonds, and hostile rings."""

from random import Random

_PARTS = (
    *("C", "CC", "O", "N", "S", "C(=O)N", "C(=O)O", "S(=O)(=O)N", "C#C", "C(F)(F)", "N(C)", "C(C)(C)", "OCC"),
    *("[C@H](O)", "[C@@H](O)", "[C@H](N)", "[C@@](F)(Cl)", "[C@@H](C#N)", "/C=C/", "/C=C\\", "[Si](C)(C)"),
    *("c1ccc(cc1)", "c1cc(ccn1)", "c1ncc(s1)", "C1CCC(CC1)", "[C@@H]1C[C@H](C1)", "C1CC2CCC1C2", "[n+]1ccc(cc1)"),
)
_ENDS = ("C", "O", "N", "F", "Cl", "Br", "C(=O)O", "C#N", "[N+](=O)[O-]", "c1ccccc1", "[NH3+]", "C(=O)[O-]", "S", "OC")
_BESIDE = ("", "", "", "", "", ".[Na+].[Cl-]", ".O", ".Cl")


def molecules(count: int, seed: int = 0) -> list[str]:
    """`count` SMILES of 1 to 12 parts; not all of them are valid."""
    rng = Random(seed)
    made = []
    for _ in range(count):
        parts = "".join(rng.choices(_PARTS, k=rng.randrange(12)))
        made.append(rng.choice(_ENDS[:6]) + parts + rng.choice(_ENDS) + rng.choice(_BESIDE))
    return made


def tangled(rings: int, seed: int) -> str:
    """A chain with so many random bonds between its atoms."""
    rng = Random(seed)
    atoms = ["C"] * (2 * rings)
    places = [*range(2 * rings)]
    rng.shuffle(places)
    labels = {}
    for number in range(rings):
        for place in places[2 * number : 2 * number + 2]:
            labels[place] = f"%({number % 900 + 100})"
    return "".join(atom + labels[i] for i, atom in enumerate(atoms))
