"""The file of faithfulness results: the summary of each method, and when there is none."""

import inspect
import json
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from molattn.errors import MolattnWarning
from molattn.explain import faithfulness_file
from molattn.explain.estimates import Estimate
from molattn.explain.faithfulness import Faithfulness, MethodScores
from molattn.explain.faithfulness_file import FILE, read_summaries, summarize, write_faithfulness
from molattn.models.config_file import WEIGHTS

CHANCE = MethodScores(0.01, 0.02, 0.5, (0.1, 0.2), 1.0)
GOOD = MethodScores(0.754, 0.8, 0.9, (0.4, 0.5), 2.345)
FOUND = Faithfulness("logS", "mol/L", 12, 9, {"additive": GOOD, "random": CHANCE}, {"additive": CHANCE})


def without_truth(m: MethodScores) -> MethodScores:
    return replace(m, kendall=None, pearson=None, auroc=None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(b"weights")
    return folder


def test_a_summary_reports_the_best_available_score() -> None:
    assert summarize(GOOD, FOUND, "esol", "test") == (
        "Kendall tau 0.75 with the true contributions to logS (random order 0.01; 1 is perfect), "
        "12 test molecules of esol"
    )
    assert ", 0% of its signs are right, 12 test molecules" in summarize(replace(GOOD, sign=0.0), FOUND, "esol", "test")
    blind = replace(FOUND, methods={name: without_truth(m) for name, m in FOUND.methods.items()})
    summary = (
        "removing its top atoms changes logS 2.35 times as much as random ones, whatever the sign, "
        "12 molecules of in.csv"
    )
    assert summarize(without_truth(GOOD), blind, "in.csv", "") == summary
    # If one of the two is constant, there is no rank correlation.
    assert summarize(GOOD, blind, "in.csv", "") == summarize(without_truth(GOOD), FOUND, "in.csv", "") == summary
    swap, pairs = Estimate(0.876, 0.7, 0.95, 40), Estimate(0.5, 0.3, 0.625, 55)
    changes = replace(without_truth(GOOD), measures={"swap_sign": swap, "pair_r2": pairs})
    assert summarize(changes, blind, "in.csv", "") == (
        "predicts 50% (30% to 62%) of the variance of the measured changes in 55 matched pairs, "
        "predicts the direction of 88% (70% to 95%) of 40 edits, 12 molecules of in.csv"
    )
    few = replace(without_truth(GOOD), measures={"swap_sign": Estimate(None, count=3, why="3 edits, under 10")})
    assert summarize(few, blind, "in.csv", "") == summary
    nothing = replace(without_truth(GOOD), deletion_ratio=None)
    assert summarize(nothing, blind, "esol", "test") == "not measurable on 12 test molecules of esol"


def test_an_entry_holds_all_results(model: Path, tmp_path: Path) -> None:
    part = write_faithfulness(tmp_path, model, FOUND, "esol", "test", "log_p")
    content = json.loads((tmp_path / FILE).read_text())
    assert (content["schema"], content["molattn"]) == (1, version("molattn"))
    assert set(content) == {"schema", "molattn", "weights_sha256", "targets"}
    assert content["targets"] == {"logS": json.loads(json.dumps(part))}
    head = ("data", "split", "molecules", "molecules_with_truth", "truth", "unit")
    assert [part[name] for name in head] == ["esol", "test", 12, 9, "log_p", "mol/L"]
    assert set(part["methods"]) == {"additive", "random"} and set(part["untrained"]) == {"additive"}
    assert part["methods"]["additive"] == {**vars(GOOD), "summary": summarize(GOOD, FOUND, "esol", "test")}
    assert part["untrained"]["additive"] == vars(CHANCE)
    assert (tmp_path / FILE).read_text().endswith("}\n")
    # A second target is added; a repeated one replaces the first.
    write_faithfulness(tmp_path, model, replace(FOUND, target="logP"), "esol", "test", "")
    write_faithfulness(tmp_path, model, replace(FOUND, num_molecules=13), "esol", "test", "log_p")
    sentences = read_summaries(tmp_path, model)
    assert list(sentences) == ["logS", "logP"]
    assert sentences["logS"]["additive"].endswith(", 13 test molecules of esol")
    assert set(sentences["logP"]) == {"additive", "random"}


def test_a_file_without_signs_is_read(model: Path, tmp_path: Path) -> None:
    """As versions wrote it that did not measure them."""
    write_faithfulness(tmp_path, model, FOUND, "esol", "test", "log_p")
    content = json.loads((tmp_path / FILE).read_text())
    for method in content["targets"]["logS"]["methods"].values():
        del method["sign"], method["measures"]
    (tmp_path / FILE).write_text(json.dumps(content))
    assert set(read_summaries(tmp_path, model)["logS"]) == {"additive", "random"}


def test_there_are_no_summaries_without_a_file_or_for_another_model_or_schema(model: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_summaries(tmp_path, model) == {}
        write_faithfulness(tmp_path, model, FOUND, "esol", "test", "log_p")
        text = (tmp_path / FILE).read_text()
        for schema in ("0", "2"):
            (tmp_path / FILE).write_text(text.replace('"schema": 1', f'"schema": {schema}'))
            assert read_summaries(tmp_path, model) == {}
        (tmp_path / FILE).write_text(text)
        assert read_summaries(tmp_path, model)
        (model / WEIGHTS).write_bytes(b"other weights")
        assert read_summaries(tmp_path, model) == {}
        # A new file of this model does not contain results of the other model.
        write_faithfulness(tmp_path, model, replace(FOUND, target="logP"), "esol", "test", "")
        assert set(read_summaries(tmp_path, model)) == {"logP"}


@pytest.mark.parametrize("gone", ["summary", "methods", "targets", "schema", "weights_sha256"])
def test_a_file_without_one_of_its_keys_is_damaged(model: Path, tmp_path: Path, gone: str) -> None:
    write_faithfulness(tmp_path, model, FOUND, "esol", "test", "log_p")
    text = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(text.replace(f'"{gone}"', '"another"'))
    with pytest.warns(
        MolattnWarning, match=rf"{FILE} is damaged \(KeyError\): measure again with molattn faithfulness"
    ):
        assert read_summaries(tmp_path, model) == {}


def test_the_warning_names_the_caller_of_what_loads_a_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `molattn.load` does; without the functions that the tests' checks of types put in between."""
    monkeypatch.setattr(faithfulness_file, "_read", inspect.unwrap(faithfulness_file._read))
    read = inspect.unwrap(read_summaries)

    def load() -> object:
        return read(tmp_path, model)

    (tmp_path / FILE).write_text("{")
    with pytest.warns(MolattnWarning, match="damaged") as warned:
        load()
    assert (warned[0].filename, warned[0].lineno) == (__file__, load.__code__.co_firstlineno + 5)


def test_a_number_that_json_does_not_have_is_not_written(model: Path, tmp_path: Path) -> None:
    write_faithfulness(tmp_path, model, FOUND, "esol", "test", "")
    before = (tmp_path / FILE).read_bytes()
    for number in (float("nan"), float("inf")):
        broken = replace(FOUND, methods={**FOUND.methods, "additive": replace(GOOD, deletion_ratio=number)})
        with pytest.raises(ValueError, match="JSON"):
            write_faithfulness(tmp_path, model, broken, "esol", "test", "")
        assert (tmp_path / FILE).read_bytes() == before
