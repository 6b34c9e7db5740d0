"""A map saved and loaded: bitwise equal, or an error with the reason."""

import contextlib
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from molattn.errors import InputError, UsageError
from molattn.explain import AttentionMap
from molattn.viewer import draw_atoms, heat_map
from tests.viewer.maps import ASPIRIN, attention_map, with_virtual_node

HOSTILE = "</script>\ud800\x00é"


def assert_same(a, b):
    for field in fields(AttentionMap):
        mine, theirs = getattr(a, field.name), getattr(b, field.name)
        if field.name == "weights":
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)
        else:
            assert mine == theirs and type(mine) is type(theirs), field.name


@pytest.mark.parametrize(
    "attention",
    [
        attention_map(ASPIRIN),
        attention_map("CCO", add_hs=True),
        replace(with_virtual_node(attention_map("C")), rows_sum_to_one=False, faithfulness="Kendall 0.1"),
        replace(attention_map("CO"), position_type="tokens", weights=attention_map("CO").weights.astype(np.float64)),
        replace(attention_map("CO"), weights=attention_map("CO").weights.swapaxes(2, 3)),
        replace(attention_map("CO"), prediction={HOSTILE: 1e-300}, units={HOSTILE: HOSTILE}),
    ],
)
def test_a_saved_map_is_loaded_unchanged(attention, tmp_path):
    attention.save(tmp_path / "map.safetensors")
    assert_same(AttentionMap.load(tmp_path / "map.safetensors"), attention)
    assert [p.name for p in tmp_path.iterdir()] == ["map.safetensors"]


def test_a_loaded_map_is_drawn_the_same(tmp_path):
    attention = attention_map(ASPIRIN)
    attention.save(tmp_path / "map.safetensors")
    again = AttentionMap.load(str(tmp_path / "map.safetensors"))
    assert draw_atoms(again, 3) == draw_atoms(attention, 3)
    assert heat_map(again) == heat_map(attention)


def test_every_lost_or_changed_byte_is_detected(tmp_path):
    path = tmp_path / "map.safetensors"
    attention_map("CO", layers=1, heads=1).save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"map.safetensors.*(damaged|holds no attention map)"):
            AttentionMap.load(path)
    rng = np.random.default_rng(0)
    for place in rng.choice(len(whole), 200):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.integers(8)
        path.write_bytes(flipped)
        with contextlib.suppress(InputError):
            # A changed byte that is not detected has no effect.
            assert_same(AttentionMap.load(path), attention_map("CO", layers=1, heads=1))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no attention map"):
        AttentionMap.load(tmp_path / "none.safetensors")
    (tmp_path / "text.safetensors").write_text("layer,head\n")
    with pytest.raises(InputError, match="damaged, or not an attention map"):
        AttentionMap.load(tmp_path / "text.safetensors")
    from safetensors.numpy import save_file

    save_file({"x": np.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="holds no attention map"):
        AttentionMap.load(tmp_path / "model.safetensors")


def test_a_file_of_a_newer_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("molattn.explain.attention_map.SCHEMA", 2)
    attention_map("CO").save(tmp_path / "map.safetensors")
    monkeypatch.undo()
    with pytest.raises(InputError, match="upgrade molattn"):
        AttentionMap.load(tmp_path / "map.safetensors")


@pytest.mark.parametrize(("name", "words"), [("map.png", "pictures"), ("none/map.safetensors", "not a folder")])
def test_invalid_paths_are_refused(name, words, tmp_path):
    with pytest.raises(UsageError, match=words):
        attention_map("CO").save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_and_torch_are_saved_as_those_of_python(tmp_path):
    numbers = {"a": np.float32(0.5), "b": np.int64(-2), "c": np.array(0.25), "d": torch.tensor(1.5), "e": np.float64(3)}
    attention = replace(attention_map("CO"), prediction={})
    attention.prediction.update(numbers)
    attention.save(tmp_path / "map.safetensors")
    again = AttentionMap.load(tmp_path / "map.safetensors")
    assert again.prediction == {"a": 0.5, "b": -2, "c": 0.25, "d": 1.5, "e": 3.0}
