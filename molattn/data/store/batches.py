"""Padded batches of molecules, and samplers that batch molecules of similar sizes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from molattn.chem import MoleculeGraph, SmilesTokens
from molattn.data.store.molecule_store import MoleculeStore
from molattn.data.store.padding import batches_by_size, pad_graphs, pad_tokens

B = TypeVar("B", bound=Any)

MAX_TRAINING_PAIRS = 2**18
"""Maximum pairs of atoms or tokens in a training batch, padding included: 32 molecules of 90 atoms. It is above
`molattn.data.store.padding.MAX_PAIRS`, for prediction, because it also limits the molecules per optimizer step."""


@runtime_checkable
class Batch(Protocol):
    """The interface of batches for training and prediction."""

    @property
    def targets(self) -> Tensor | None:
        """(b, T) of molecules, or (N, T) of all atoms, NaN for a missing label; None in prediction."""
        ...

    @property
    def descriptors(self) -> Tensor | None:
        """(b, k) standardized extra descriptors of the molecules; None if there are none."""
        ...

    def __len__(self) -> int: ...

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        ...


@dataclass(frozen=True)
class MoleculeBatch:
    """b molecules padded to n atoms each; all codes are uint8, as in `molattn.chem.MoleculeGraph`.

    Attributes:
        atom_codes: (b, n, F).
        bond_codes: (b, n, n).
        path_lengths: (b, n, n).
        mask: (b, n), True for atoms.
        targets: (b, T) of molecules, or (N, T) of all atoms, concatenated in the order of the molecules; NaN for a
            missing label; None in prediction.
        distances: (b, n, n) float32 in angstrom, inf between fragments; None if the molecules have none.
        descriptors: (b, k) float32, standardized; None if there are none.
    """

    atom_codes: Tensor
    bond_codes: Tensor
    path_lengths: Tensor
    mask: Tensor
    targets: Tensor | None = None
    distances: Tensor | None = None
    descriptors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.mask)

    def to(self, device: torch.device | str) -> "MoleculeBatch":
        """The same batch on another device."""
        return _to_device(self, device)

    def pin_memory(self) -> "MoleculeBatch":
        """The batch in pinned memory; `torch.utils.data.DataLoader` calls this."""
        return _map_tensors(self, Tensor.pin_memory)


def collate(
    molecules: Sequence[MoleculeGraph] | MoleculeStore,
    targets: np.ndarray | None = None,
    descriptors: np.ndarray | None = None,
) -> MoleculeBatch:
    """Collate molecules into a batch, in order, padded with zeros to the largest one.

    Args:
        molecules: b molecules.
        targets: (b, T) of molecules, (N, T) of all atoms, or None.
        descriptors: (b, k), standardized, or None.

    Raises:
        ValueError: some of the molecules have distances and others have none.
    """
    arrays = molecules.padded() if isinstance(molecules, MoleculeStore) else pad_graphs(molecules)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return MoleculeBatch(**tensors, targets=_tensor(targets, np.float64), descriptors=_tensor(descriptors, np.float32))


@dataclass(frozen=True)
class TokenBatch:
    """b molecules, padded to n tokens; the codes are those of `molattn.chem.SmilesTokens`.

    Attributes:
        codes: (b, n) uint8, 0 for padding.
        targets: (b, T), NaN for a missing label; None in prediction.
        descriptors: (b, k) float32, standardized; None if there are none.
    """

    codes: Tensor
    targets: Tensor | None = None
    descriptors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def to(self, device: torch.device | str) -> "TokenBatch":
        """The same batch on another device."""
        return _to_device(self, device)

    def pin_memory(self) -> "TokenBatch":
        """The batch in pinned memory; `torch.utils.data.DataLoader` calls this."""
        return _map_tensors(self, Tensor.pin_memory)


def collate_tokens(
    molecules: Sequence[SmilesTokens] | MoleculeStore,
    targets: np.ndarray | None = None,
    descriptors: np.ndarray | None = None,
) -> TokenBatch:
    """Collate the tokens of molecules into a batch, in order, padded with zeros to the longest one.

    Args:
        molecules: b molecules.
        targets: (b, T), or None.
        descriptors: (b, k), standardized, or None.
    """
    arrays = molecules.padded() if isinstance(molecules, MoleculeStore) else pad_tokens(molecules)
    codes = torch.from_numpy(arrays["codes"])
    return TokenBatch(codes, _tensor(targets, np.float64), _tensor(descriptors, np.float32))


def _tensor(numbers: np.ndarray | None, dtype: type[np.floating]) -> Tensor | None:
    return None if numbers is None else torch.from_numpy(np.asarray(numbers, dtype=dtype))


def _map_tensors(batch: B, function: Callable[[Tensor], Tensor]) -> B:
    return replace(batch, **{name: function(x) for name, x in vars(batch).items() if x is not None})


def _to_device(batch: B, device: torch.device | str) -> B:
    # Copies to a GPU may be asynchronous, because kernels of the same stream wait for them; copies to the CPU may not,
    # because the CPU could read them before they are complete.
    to_gpu = torch.device(device).type == "cuda"
    return _map_tensors(batch, lambda x: x.to(device, non_blocking=to_gpu))


class BucketBatchSampler:
    """Random batches of molecules of similar sizes, because the cost of padding is quadratic in the size.

    Every epoch shuffles all molecules, sorts pools of `pool_size` batches by size, cuts them into batches and shuffles
    the batches. The batches depend only on the seed and the epoch.

    Molecules so large that `batch_size` of them would exceed `max_pairs` are batched separately, as many as fit, in the
    same batches in every epoch. So no small molecule is padded to their size.

    Args:
        sizes: (n,) number of atoms or tokens of each molecule.
        batch_size: maximum number of molecules in a batch.
        seed: seed of the shuffles.
        pool_size: number of batches that are sorted together; with 1, molecules are not sorted by size.
        max_pairs: maximum pairs of atoms or tokens in a batch, padding included; a molecule with more is a batch by
            itself.
        rank, world_size: index and number of the processes of distributed training. Each gets every `world_size`-th
            molecule of each batch, which are none if the batch is small.
    """

    def __init__(
        self,
        sizes: Sequence[int] | np.ndarray,
        batch_size: int,
        seed: int,
        pool_size: int = 8,
        max_pairs: int = MAX_TRAINING_PAIRS,
        rank: int = 0,
        world_size: int = 1,
    ):
        self.sizes, self.batch_size, self.seed, self.pool_size = np.asarray(sizes), batch_size, seed, pool_size
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        large = batch_size * self.sizes.astype(np.int64) ** 2 > max_pairs
        self._small = np.flatnonzero(~large)
        large = np.flatnonzero(large)
        self._large = [large[batch] for batch in batches_by_size(self.sizes[large], batch_size, max_pairs)]

    def __len__(self) -> int:
        return -(-len(self._small) // self.batch_size) + len(self._large)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, before iterating: it determines the order, as in `torch.utils.data.DistributedSampler`."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        order = self._small[rng.permutation(len(self._small))]
        step = self.batch_size * self.pool_size
        pools = [order[i : i + step] for i in range(0, len(order), step)]
        pools = [pool[np.argsort(self.sizes[pool], kind="stable")] for pool in pools]
        batches = [pool[i : i + self.batch_size] for pool in pools for i in range(0, len(pool), self.batch_size)]
        batches += self._large
        for i in rng.permutation(len(batches)):
            yield batches[i][self.rank :: self.world_size].tolist()
