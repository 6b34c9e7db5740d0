"""`molattn presets`, and training one from the command line."""

import json

from molattn.models.presets import PRESETS
from tests.cli.conftest import QUICK, Molattn


def test_presets_are_listed_with_their_source_and_size(molattn: Molattn) -> None:
    answer = molattn("presets")
    assert answer.code == 0
    for name in PRESETS:
        assert name in answer.out
    assert "arXiv:2002.08264" in answer.out and "153,729" in answer.out


def test_presets_as_json(molattn: Molattn) -> None:
    listed = {p["name"]: p for p in json.loads(molattn("presets", "--json").out)}
    assert set(listed) == set(PRESETS)
    assert listed["mat"]["needs_3d"] and listed["mat"]["url"].endswith("2002.08264")
    assert all(p["parameters"] > 50_000 for p in listed.values())


def test_a_preset_trains_predicts_and_shows_its_attention(molattn: Molattn, tmp_path) -> None:
    table = tmp_path / "few.csv"
    rows = [f"{'C' * i}{end},{i}" for i in range(1, 9) for end in ("O", "N", "")]
    table.write_text("\n".join(["smiles,y", *rows]) + "\n")
    run = tmp_path / "run"
    answer = molattn("train", table, "--target-columns", "y", "--preset", "rmat", *QUICK, "-o", run)
    assert answer.code == 0, answer.err
    assert 'attention = "rmat"' in (run / "config.toml").read_text()
    assert molattn("predict", run, "--smiles", "CCO").code == 0


def test_an_unknown_preset_is_refused(molattn: Molattn) -> None:
    answer = molattn("train", "--dataset", "esol", "--preset", "graphomer")
    assert answer.code == 2 and "did you mean 'graphormer'" in answer.err
