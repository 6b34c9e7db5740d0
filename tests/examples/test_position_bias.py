"""The trainings on positions: reproducible, with Keras' initialization. Their results are in tests/documents."""

import sys

import pytest
import torch

from examples.position_bias import TRAININGS, init_like_keras, main, train_on_positions
from molattn.attention import MultiHeadAttention


def test_a_training_is_reproducible_and_restores_the_random_state() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, other = (train_on_positions(TRAININGS[0], epochs=1, seed=2) for _ in range(2))
    assert one.losses == other.losses
    assert torch.equal(before, torch.get_rng_state())
    assert train_on_positions(TRAININGS[0], epochs=1, seed=3).losses != one.losses


def test_the_layer_is_initialized_as_in_keras() -> None:
    layer = init_like_keras(MultiHeadAttention(7, 8, head_dim=7, key_bias="per_position", max_length=5))
    # Keras' kernels of q, k, v are (7, 8, 7): a receptive field of 7, fans of 8 and 7; that of the output is (8, 7, 7).
    for name, fans in (("q_proj", 105), ("k_proj", 105), ("v_proj", 105), ("join.linear", 112)):
        largest = layer.get_parameter(f"{name}.weight").abs().max()
        assert largest <= (6 / fans) ** 0.5 < 1.02 * largest
    assert all(not p.any() for p in layer.parameters() if p.dim() != 2)


def test_the_command_prints_a_line_for_each_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["position_bias", "--epochs", "1"])
    main()
    shown = capsys.readouterr().out
    assert all(f"| {t.published_loss:.2g} |" in shown for t in TRAININGS)
    assert "Seed 0, 1 epochs" in shown
