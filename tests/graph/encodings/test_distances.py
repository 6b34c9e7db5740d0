"""Radial bases and distance encodings: values of the formulas, limits of their range, gradients."""

import math

import pytest
import torch

from molattn.graph import Bessel, DistanceEncoding, DistanceKernel, Gaussians
from tests.assertions import assert_close, assert_identical
from tests.graph.encodings.batches import SMILES, batch_of
from tests.graph.graphs import F64, double

BASES = {"gaussians": Gaussians(6, 5.0), "bessel": Bessel(6, 5.0, exponent=5)}
BATCH = batch_of(*SMILES)


@pytest.fixture(params=BASES)
def bases(request):
    return BASES[request.param].double()


@pytest.mark.parametrize(("num_bases", "cutoff"), [(6, 5.0), (11, 5.0), (3, 12.0)])
def test_gaussians_are_one_width_apart(num_bases, cutoff):
    d = torch.tensor([0.0, 0.7, 5.0, 9.0], dtype=F64)
    g = Gaussians(num_bases, cutoff).double()(d)
    width = cutoff / (num_bases - 1)
    for row, distance in zip(g.tolist(), d.tolist(), strict=True):
        expected = [math.exp(-((distance / width - n) ** 2) / 2) for n in range(num_bases)]
        assert row == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("p", [1, 2, 5, 6])
def test_bessel_bases_match_the_paper(p):
    c = 5.0
    d = torch.tensor([1e-3, 0.7, 2.5, 4.999], dtype=F64)
    g = Bessel(7, c, exponent=p).double()(d)
    a, b, e = -(p + 1) * (p + 2) / 2, p * (p + 2), -p * (p + 1) / 2
    for row, distance in zip(g.tolist(), d.tolist(), strict=True):
        x = distance / c
        envelope = 1 / x + a * x ** (p - 1) + b * x**p + e * x ** (p + 1)
        expected = [math.sin(n * math.pi * x) / (n * math.pi) * envelope for n in range(1, 8)]
        assert row == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_bessel_bases_are_finite_at_zero_and_zero_from_the_cutoff_on():
    d = torch.tensor([0.0, 5.0, 5.1, 1e30], dtype=F64)
    g = Bessel(4, 5.0).double()(d)
    assert_close(g[0], torch.ones(4, dtype=F64))
    assert (g[1:] == 0).all()


def test_bessel_bases_end_smoothly():
    d = torch.tensor([5.0 - 1e-4], dtype=F64, requires_grad=True)
    g = Bessel(4, 5.0).double()(d).sum()
    (slope,) = torch.autograd.grad(g, d, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, d)
    assert g.abs() < 1e-8 and slope.abs() < 1e-5 and curvature.abs() < 1e-1


def test_bases_pass_gradcheck_also_at_zero_and_beyond_the_cutoff(bases):
    d = torch.tensor([0.0, 0.3, 2.0, 4.9, 6.0], dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(bases, (d,))


def test_features_are_a_linear_map_of_the_bases_and_a_row_for_other_fragments(bases):
    encoding = double(DistanceEncoding(3, bases))
    e = encoding(BATCH)
    disconnected = BATCH.distances.isinf()
    assert disconnected.any()
    assert_close(e[~disconnected], encoding.linear(bases(BATCH.distances[~disconnected])))
    assert_identical(e[disconnected], encoding.disconnected.expand(int(disconnected.sum()), -1))


@pytest.mark.parametrize(
    "layer",
    [*(DistanceEncoding(3, bases) for bases in BASES.values()), DistanceKernel("softmax"), DistanceKernel("exp")],
    ids=[*BASES, "softmax", "exp"],
)
def test_distances_pass_gradcheck_also_on_the_diagonal_and_between_fragments(layer):
    batch = batch_of("CO.[Na+]", "C")
    d = batch.distances.clone().requires_grad_()
    layer = double(layer)
    (gradient,) = torch.autograd.grad(layer(batch.replace(distances=d)).square().sum(), d)
    assert gradient.isfinite().all()
    assert (gradient[d.isinf()] == 0).all()

    def of_finite(values):
        return layer(batch.replace(distances=batch.distances.masked_scatter(~d.isinf(), values)))

    assert torch.autograd.gradcheck(of_finite, (batch.distances[~d.isinf()].requires_grad_(),))


@pytest.mark.parametrize("layer", [DistanceEncoding(3), DistanceKernel("softmax"), DistanceKernel("exp")])
def test_molecules_without_conformers_raise(layer):
    with pytest.raises(ValueError, match="no conformers"):
        layer(BATCH.replace(distances=None))


def test_the_smallest_arguments_are_accepted():
    assert_close(
        Gaussians(2, 1.0)(torch.tensor([0.0, 1.0])), torch.tensor([[1.0, math.exp(-0.5)], [math.exp(-0.5), 1.0]])
    )
    assert Bessel(1, 1.0, exponent=1)(torch.tensor([0.5])).shape == (1, 1)


def test_arguments_out_of_range_raise():
    for wrong in ({"num_bases": 1}, {"cutoff": 0.0}, {"cutoff": math.nan}, {"cutoff": math.inf}, {"cutoff": -1.0}):
        with pytest.raises(ValueError, match="finite: num_bases="):
            Gaussians(**wrong)
    for wrong in (
        {"num_bases": 0},
        {"cutoff": 0.0},
        {"cutoff": math.nan},
        {"cutoff": math.inf},
        {"cutoff": -1.0},
        {"exponent": 0},
    ):
        with pytest.raises(ValueError, match="finite: num_bases="):
            Bessel(**wrong)


def test_bases_have_no_parameters_and_no_state():
    for bases in (Gaussians(6, 5.0), Bessel(6, 5.0)):
        assert not list(bases.parameters()) and not bases.state_dict()
    assert set(DistanceEncoding(3).state_dict()) == {"linear.weight", "disconnected"}
