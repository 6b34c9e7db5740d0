"""What holds for every encoding: order, padding, batch invariance, finite values and gradients."""

import jaxtyping
import pytest
import torch
from torch.func import functional_call

from molattn.graph import (
    AdjacencyWeights,
    AttentionBias,
    Bessel,
    BondEncoding,
    BondOneHot,
    Concat,
    DegreeEncoding,
    DistanceEncoding,
    DistanceKernel,
    Encoding,
    Gaussians,
    Molecules,
    PathEdgeEncoding,
    PathEncoding,
    PathOneHot,
    RandomWalkEncoding,
    RandomWalkNodes,
    Sum,
)
from tests.assertions import assert_close, assert_equivariant, assert_identical
from tests.graph.encodings.batches import PARTS, SIZES, SMILES, batch_of, garbled, reordered, single
from tests.graph.graphs import F64, double

EDGES = {
    "bond": lambda: BondEncoding(PARTS, SIZES, 6),
    "bond one-hot": lambda: BondOneHot(PARTS, SIZES),
    "path": lambda: PathEncoding(6, max_path=3),
    "neighbourhood": lambda: PathOneHot(3),
    "head table": lambda: AttentionBias(5, 6),
    "path edges": lambda: PathEdgeEncoding(PARTS, SIZES, 6, max_path=4),
    "walks": lambda: RandomWalkEncoding(5, 6),
    "gaussians": lambda: DistanceEncoding(6, Gaussians(8, 10.0)),
    "bessel": lambda: DistanceEncoding(6, Bessel(8, 10.0)),
    "softmax of distances": lambda: DistanceKernel("softmax"),
    "exp of distances": lambda: DistanceKernel("exp"),
    "adjacency": lambda: AdjacencyWeights(),
    "sum": lambda: Sum([BondEncoding(PARTS, SIZES, 6), RandomWalkEncoding(4, 6)]),
    "concat": lambda: Concat([BondOneHot(PARTS, SIZES), Sum([PathEncoding(6, 3), DistanceEncoding(6)])]),
}
NODES = {"degree": lambda: DegreeEncoding(6, max_degree=2), "walks back": lambda: RandomWalkNodes(5, 6)}
UNLEARNED = ("bond one-hot", "neighbourhood")
WEIGHTS = ("softmax of distances", "exp of distances", "adjacency")
ALL = EDGES | NODES
LEARNED = [name for name in ALL if name not in (*UNLEARNED, *WEIGHTS)]
BATCH = batch_of(*SMILES)

every_encoding = pytest.mark.parametrize("name", ALL)


def permuted(x, order, name):
    return x[:, order] if name in NODES else x[:, order][:, :, order]


@every_encoding
def test_shapes_and_dtypes(name):
    encoding = ALL[name]()
    b, n = BATCH.mask.shape
    shape = (b, n, encoding.dim) if name in NODES else (b, n, n, encoding.dim)
    assert isinstance(encoding, Encoding)
    features = encoding(BATCH)
    assert features.shape == shape and features.dtype == torch.float32
    features = double(encoding)(BATCH)
    assert features.shape == shape and features.dtype == F64


@every_encoding
def test_encodings_are_equivariant_to_the_order_of_the_atoms(name):
    encoding = double(ALL[name]())
    order = torch.randperm(BATCH.mask.shape[1], generator=torch.Generator().manual_seed(1))
    assert_equivariant(
        encoding, (BATCH,), lambda batch: (reordered(batch, order),), lambda x: permuted(x, order, name), tol=1e-12
    )


@every_encoding
def test_values_in_the_padding_do_not_change_one_bit(name):
    encoding = double(ALL[name]())
    features = encoding(BATCH)
    assert_identical(encoding(garbled(BATCH)), features)
    assert features.isfinite().all()


@every_encoding
def test_batch_invariance(name):
    encoding = double(ALL[name]())
    features = encoding(BATCH)
    for k in range(len(SMILES)):
        molecule = single(BATCH, k)
        n = molecule.mask.shape[1]
        in_batch = features[k, :n] if name in NODES else features[k, :n, :n]
        assert_close(in_batch, encoding(molecule)[0])


@pytest.mark.parametrize("name", WEIGHTS)
def test_fixed_weights_are_zero_in_the_padding_and_never_negative(name):
    weights = double(EDGES[name]())(garbled(BATCH))
    real = BATCH.mask.unsqueeze(-1) & BATCH.mask.unsqueeze(-2)
    assert (weights[~real] == 0).all() and (weights >= 0).all()
    assert (weights[BATCH.path_lengths == 255] == 0).all()


@pytest.mark.parametrize("name", LEARNED)
def test_parameters_pass_gradcheck(name):
    encoding = double(ALL[name]())
    names, parameters = zip(*encoding.named_parameters(), strict=True)
    batch = garbled(batch_of("C1CC1C#N", "C", "[Na+].CO"))
    assert torch.autograd.gradcheck(
        lambda *values: functional_call(encoding, dict(zip(names, values, strict=True)), (batch,)), parameters
    )


@pytest.mark.parametrize("name", [*LEARNED, *WEIGHTS[:2]])
def test_gradients_are_finite_with_garbage_in_the_padding(name):
    encoding = double(ALL[name]())
    batch = garbled(BATCH)
    distances = batch.distances.clone().requires_grad_()
    features = encoding(batch.replace(distances=distances))
    for gradient in torch.autograd.grad(
        features.square().sum(), [*encoding.parameters(), distances], allow_unused=True
    ):
        assert gradient is None or gradient.isfinite().all()


@every_encoding
def test_empty_batches(name):
    encoding = double(ALL[name]())
    nothing = BATCH[:0]
    assert encoding(nothing).shape[:2] == nothing.mask.shape


@pytest.mark.parametrize("name", [*UNLEARNED, *WEIGHTS])
def test_fixed_encodings_have_no_parameters_and_no_state(name):
    assert not list(ALL[name]().parameters()) and not ALL[name]().state_dict()


@every_encoding
def test_features_are_on_the_device_of_the_molecules(name):
    features = ALL[name]().to("meta")(BATCH.to("meta"))
    assert features.device.type == "meta" and features.shape == ALL[name]()(BATCH).shape


@every_encoding
def test_one_traced_graph_fits_all_molecules(name):
    """No control flow depends on values, as torch.compile requires."""
    encoding = double(ALL[name]())
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda a, b, p, m, d: encoding(_batch(a, b, p, m, d)))(
        *_fields(batch_of("CCCCCC", "C.C.C"))
    )
    other = batch_of("C1CC1CC#N", "C")
    assert_close(traced(*_fields(other)), encoding(other))


def _fields(batch):
    return batch.atom_codes, batch.bond_codes, batch.path_lengths, batch.mask, batch.distances


def _batch(*tensors):
    return BATCH.replace(
        **dict(zip(("atom_codes", "bond_codes", "path_lengths", "mask", "distances"), tensors, strict=True))
    )


def test_molecules_is_a_structural_type():
    assert isinstance(BATCH, Molecules)


@pytest.mark.annotations
def test_a_tensor_is_no_molecules():
    with pytest.raises(jaxtyping.TypeCheckError):
        AdjacencyWeights()(BATCH.mask)
