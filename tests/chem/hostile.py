"""Text that a SMILES column may hold: what it is, and whether it must be parsed as a molecule.

Characters that are invisible or look alike are written as escapes.
"""

import math

_POLYACENE = "c1ccc2cc3" + "cc4cc3" * 3

HOSTILE: list[tuple[object, bool]] = [
    # Empty, or not text.
    ("", False),
    (" ", False),
    ("   ", False),
    (None, False),
    (math.nan, False),
    (math.inf, False),
    (0, False),
    (12.5, False),
    (True, False),
    (b"CCO", False),
    (["CCO"], False),
    # Text that looks like SMILES, or contains invisible characters.
    ("\u0421\u0421\u041e", False),  # Cyrillic letters
    ("O\u0421", False),  # RDKit reads water
    ("\u039f", False),  # a Greek letter
    ("C\U0001f600", False),  # RDKit reads methane
    ("C\u200bC", False),  # zero-width space
    ("C\u200d", False),  # zero-width joiner
    ("\ufeffCCO", False),  # byte-order mark
    ("CCO\u00a0", True),  # no-break space
    ("\u3000CCO", True),  # ideographic space
    ("\uff23\uff23\uff2f", False),  # full-width letters
    ("CC\u2212C", False),  # a minus sign that is no hyphen
    ("C\u2261N", False),  # a triple bond as it is drawn
    ("C\u0301C", False),  # combining accent
    ("\u202eOCC", False),  # right-to-left override
    ("\ud800", False),  # a lone surrogate
    ("C\x00C", False),
    ("C\x00", False),
    ("C\x1b[31mC", False),
    ("C\x7f", False),
    # White space and what RDKit takes for a name or an extension.
    ("CC\tethane", False),
    ("CC ethane", False),
    ("CC\nO", False),
    ("CC\r\n", True),
    ("\tCC", True),
    ("C C", False),
    ("CC |$R1;$|", False),
    ("CC|$R1;$|", False),
    ("CC " + "x" * 1_000_000, False),
    (" CCO ", True),
    # Sizes.
    ("C" * 1_000, True),
    ("C" * 1_001, False),
    ("C" * 20_000, False),
    ("C1" + "C" * 998 + "C1", True),
    ("C1" + "C" * 9_998 + "C1", False),
    ("(" * 100_000 + "C" + ")" * 100_000, False),
    ("C" + "(" * 4_000 + "C" + ")" * 4_000, False),
    ("C" + "(C" * 900 + ")" * 900, True),
    ("[" * 9_000, False),
    ("[Og]" * 2_000, False),
    (".".join("C" * 1_000), True),
    (".".join("C" * 1_001), False),
    ("." * 9_000, False),
    ("[H]" * 3_000, False),
    (".".join(["[H]"] * 2_000), False),
    ("C11" * 900, False),
    ("*" + "12345" * 1_000, False),
    ("%10" * 3_000, False),
    ("F" + "[C@@H](O)" * 490 + "Cl", True),
    # Wrong grammar.
    ("C1CC", False),
    ("C(C", False),
    ("CC)", False),
    ("C(", False),
    ("()", False),
    ("C==C", False),
    ("C=", False),
    ("[C", False),
    ("C]", False),
    ("[]", False),
    ("C%", False),
    ("C%1", False),
    ("CXC", False),
    ("[Uue]", False),
    ("[9999999999C]", False),
    ("[C+99999999999]", False),
    ("[C:99999999999999999999]", False),
    ("C>>C", False),
    ("[#6;R]", False),
    ("<script>alert(1)</script>", False),
    ("=CMD()", False),
    ("../../etc/passwd", False),
    ("N/A", False),
    ("nan", False),
    ("InChI=1S/CH4/h1H4", False),
    # Wrong chemistry.
    ("C(C)(C)(C)(C)C", False),
    ("[CH5]", False),
    ("[CH99]", False),
    ("C[H]C", False),
    ("F=F", False),
    ("c1ccccc1c", False),
    ("c1ccc1c2cccc2", False),
    ("cc", False),
    (_POLYACENE, False),
    # Rare, and right.
    ("C", True),
    ("[Na+].[Cl-]", True),
    ("[Og]", True),
    ("[C+7]", True),
    ("[O-6]", True),
    ("[NH3]->[Pt](Cl)(Cl)<-[NH3]", True),
    ("Cl[Pt@SP1](Cl)(N)N", True),
    ("*", True),
    ("C*", True),
    ("C~C", True),
    ("[Re]$[Re]", True),
    ("[H]", True),
    ("[H][H]", True),
    ("[HH]", True),
    ("[H+]", True),
    ("[H-]", True),
    ("[2H]", True),
    ("[2H]O[2H]", True),
    ("[He]", True),
    ("[13CH4]", True),
    ("[CH3:7]C", True),
    ("[CH2]", True),
    ("[U](F)(F)(F)(F)(F)F", True),
    ("C%12CC%12", True),
    ("C%(123)CC%(123)", True),
]
