"""Every statement of the README has a test or a generated page that holds it; here: those without another test."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import molattn
from molattn.chem import atom_codes, canonical_smiles, read_smiles
from molattn.errors import SmilesError, UsageError
from molattn.models.graph_model import GraphModel
from molattn.models.presets import PRESETS
from molattn.training.config import DataConfig
from molattn.training.prepare import prepare

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"

PICTURE = "tests/cli/test_readme_picture.py::test_the_command_below_the_picture_makes_it"
FIRST = "tests/cli/test_readme_output.py::test_the_first_command_prints_what_the_readme_says"
ROWS = "tests/cli/test_predict.py::test_every_row_and_column_is_kept_in_order"
LINKS = "tests/test_readme.py::test_every_link_leads_to_a_file_and_a_heading"
PYTHON = "tests/documents/test_pages.py::test_the_python_of_a_page_runs"
FIGURES = "tests/test_readme_figures.py"
INVARIANCE = "tests/models/test_invariance.py"
HERE = "tests/test_readme_statements.py"

HELD_BY = {
    "![The page of aspirin": PICTURE,
    "*The page that `molattn view` writes": PICTURE,
    "Graph attention for chemistry.": "docs/systems.md",
    "SMILES go in.": FIRST,
    "Every molecule becomes a complete graph": "tests/documents/test_002_attention_in_a_chemistry_book.py::"
    "test_document_002_bond_and_distance_of_every_pair_become_the_features_of_its_edge",
    "Out come a property": "tests/models/test_one_core.py::"
    "test_with_the_reference_the_softmax_of_the_core_decides_predictions_and_maps",
    "Chemists with a CSV": ROWS,
    "Machine-learning researchers": "tests/attention/test_contract_torch.py::"
    "test_multihead_attention_against_numpy; tests/graph/test_conv.py::"
    "test_it_equals_pygs_transformer_conv_on_a_hundred_random_graphs; tests/attention/test_torch_parity.py::"
    "test_torch_parity_both_ways",
    "Students": "tests/documents/test_explanation.py::test_every_excerpt_is_in_the_source; "
    "tests/kernels/test_blocks.py::test_outputs_and_gradients_agree_with_the_equations",
    "Python 3.11 or later.": f"{HERE}::test_the_lowest_python_and_the_licence",
    "On a fresh clone, this installs": f"{HERE}::test_the_table_of_the_first_command; {FIRST}",
    "The training takes": "docs/results/training_speed.md",
    "It ends with": FIRST,
    "Predict molecules of your own": FIRST,
    "`out.csv` has every row and column": f"{ROWS}; tests/cli/test_predict.py::test_one_bad_row_in_a_thousand_and_one",
    "Paint the attention on the atoms": PYTHON,
    "| I want to |": LINKS,
    "All pages and notebooks": "tests/test_readme.py::test_the_index_of_the_guide_has_every_page_and_notebook",
    "The 22 systems": "tests/test_readme.py::test_there_is_a_row_for_each_system; "
    "tests/test_readme.py::test_the_notebooks_and_modules_of_a_system_exist",
    "| test error |": f"{FIGURES}::test_the_errors_and_the_best_of_the_others",
    "`python benchmarks/accuracy.py`": "docs/accuracy.md",
    "All runs, and what was chosen": "docs/accuracy.md",
    "TDC's ADMET tasks, five seeds": f"{FIGURES}::test_the_mean_rank_in_the_arena",
    "On 20 targets of MoleculeACE": f"{FIGURES}::test_the_errors_on_moleculeace",
    "The first command's 0.449 is no leak": f"{HERE}::test_no_molecule_of_the_first_command_is_in_two_subsets; "
    "tests/training/test_initialization.py::test_the_default_base_model_was_not_trained_on_esol",
    "The test side of that split is easy": f"{FIGURES}::test_the_error_of_the_training_mean; {FIRST}",
    "| on one thread |": f"{FIGURES}::test_the_ratios_of_speed",
    "`python benchmarks/prediction.py`": "docs/results/prediction_speed.md",
    "What 100 million molecules would cost": "docs/scale.md",
    "| `python benchmarks/reliability.py`": f"{FIGURES}::test_the_counts_of_faults",
    "Line by line": "docs/reliability.md",
    "How many faults put into the code": "docs/mutation.md",
    "Atom order, padding and the other molecules": f"{INVARIANCE}::test_atom_order_does_not_matter; "
    f"{INVARIANCE}::test_padding_does_not_matter; {INVARIANCE}::test_batch_invariance",
    "No targets of bonds.": f"{HERE}::test_unsupported_targets_are_refused",
    "No calibration of atom-level targets.": f"{HERE}::test_unsupported_targets_are_refused",
    "3D is one conformer": f"{HERE}::test_only_the_presets_that_are_named_need_a_conformer",
    "Stereochemistry is seen": f"{INVARIANCE}::test_stereo_isomers_differ; "
    f"{HERE}::test_the_stereochemistry_of_allenes_has_no_code",
    "Molecules over 1,000 atoms": f"{HERE}::test_molecules_over_the_limit_are_refused",
    "The tests, on a fresh clone": f"{HERE}::test_the_command_of_the_tests_is_that_of_ci",
    "| full suite with |": "tests/test_versions.py::test_the_pinned_versions_are_those_of_the_constraints; "
    "tests/test_versions.py::test_the_lowest_versions_are_those_of_pyproject",
    "What else runs before a change lands": "docs/guide/develop.md",
    "To cite molattn": LINKS,
    "MIT licence.": f"{HERE}::test_the_lowest_python_and_the_licence",
}
"""The start of each sentence, or of each table: what holds it, tests or pages that a command writes, or both."""


def statements(text: str) -> list[str]:
    """The sentences of the prose and of its lists, and the first line of each table."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for paragraph in text.split("\n\n"):
        block = paragraph.strip()
        if block.startswith("|"):
            found.append(block.splitlines()[0])
        elif block and not block.startswith("#"):
            for item in re.split(r"\n(?=- )", block):
                words = " ".join(item.split()).removeprefix("- ")
                found += re.split(r"(?<=[.:])\s+(?=[A-Z`*])", words)
    return found


def test_every_statement_has_an_existing_test_or_page() -> None:
    sentences = statements(README.read_text(encoding="utf-8"))
    assert [s for s in sentences if not any(s.startswith(start) for start in HELD_BY)] == []
    assert [start for start in HELD_BY if not any(s.startswith(start) for s in sentences)] == []
    for holders in HELD_BY.values():
        for holder in holders.split("; "):
            path, _, name = holder.partition("::")
            assert (ROOT / path).is_file(), holder
            assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), holder


def test_a_new_statement_is_found() -> None:
    text = (
        "# molattn\n\nIt is\nfast. It is\n*good*.\n\n- A: B.\n- c\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nno.\n```\n"
    )
    assert statements(text) == ["It is fast.", "It is *good*.", "A:", "B.", "c", "| a | b |"]


# Statements that no other test covers


def test_the_lowest_python_and_the_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"].startswith(">=3.11") and project["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")


def test_the_table_of_the_first_command() -> None:
    lines = (ROOT / "datasets" / "esol.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 1128 and "a table of\n1,128 rows" in README.read_text(encoding="utf-8")


def test_no_molecule_of_the_first_command_is_in_two_subsets() -> None:
    dataset = prepare(DataConfig(dataset="esol"), GraphModel, seed=0)
    keys: dict[str, set[str]] = {}
    for text, side in zip(dataset.smiles, dataset.split_labels, strict=True):
        keys.setdefault(side, set()).add(canonical_smiles(read_smiles(text)))
    assert set(keys) == {"train", "val", "test"}
    assert sum(map(len, keys.values())) == len(set.union(*keys.values()))


def test_the_command_of_the_tests_is_that_of_ci() -> None:
    text = README.read_text(encoding="utf-8")
    (command,) = re.findall(r'^(python3 -m venv .*\[test\]".*)$', text, re.MULTILINE)
    assert command.endswith(".venv/bin/pytest")
    assert "readme_command '.venv/bin/pytest'" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_unsupported_targets_are_refused(tmp_path: Path) -> None:
    rows = [f'{"C" * n},"[{", ".join([f"{n}.0"] * n)}]"' for n in range(1, 41)]
    table = tmp_path / "atoms.csv"
    table.write_text("\n".join(["smiles,h", *rows]) + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match="bond-regression"):
        molattn.train(table, output_dir=tmp_path / "a", task_type="bond-regression", quiet=True)
    options = {"task_type": "atom-regression", "calibration_size": 0.2, "epochs": 1, "quiet": True}
    with pytest.raises(UsageError, match="calibration requires molecules that are independent"):
        molattn.train(table, output_dir=tmp_path / "b", **options)


def test_only_the_presets_that_are_named_need_a_conformer() -> None:
    assert not DataConfig().conformers
    names = ", ".join(f"`{name}`" for name, preset in PRESETS.items() if preset.needs_3d)
    assert f"(presets {names}; `data.conformers`)" in README.read_text(encoding="utf-8")


def test_the_stereochemistry_of_allenes_has_no_code() -> None:
    one, other = (atom_codes(read_smiles(s)) for s in ("CC=[C@]=CC", "CC=[C@@]=CC"))
    np.testing.assert_equal(one, other)


def test_molecules_over_the_limit_are_refused() -> None:
    limit = DataConfig().max_atoms
    assert limit == 1000
    assert read_smiles("C" * limit, max_atoms=limit).GetNumAtoms() == limit
    with pytest.raises(SmilesError, match="1,?001 atoms"):
        read_smiles("C" * (limit + 1), max_atoms=limit)
