"""The processes that train one model together: which of them this one is, and what they tell each other.

Each of them, a rank, runs the whole command, and is told who it is by the variables that torchrun sets: RANK,
WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR and MASTER_PORT. `molattn train --devices N` sets the
same ones. Within `together` they talk; everywhere else each process is alone, and whatever is asked here is answered by
itself. Importing this loads nothing heavy.
"""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from molattn.errors import MolattnError, ProcessLost, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from molattn.training.config import TrainingConfig

T = TypeVar("T")

_together = False


def launched() -> int:
    """How many processes were started for one training, on all machines; 1 where nobody started any."""
    return int(os.environ["WORLD_SIZE"]) if "RANK" in os.environ and "WORLD_SIZE" in os.environ else 1


def local_size() -> int:
    """How many of them are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", launched()))


def is_first() -> bool:
    """Whether this process speaks for all of them: it writes the files and tells how it goes."""
    return launched() == 1 or os.environ["RANK"] == "0"


def devices_of(devices: str) -> int:
    """How many processes `training.devices` asks for on each machine; 0 where it leaves that open.

    >>> [devices_of(text) for text in ("auto", "4", "0,2", "0,")]
    [0, 4, 2, 1]

    Raises:
        UsageError: it is none of these.
    """
    if devices == "auto":
        return 0
    places = devices.removesuffix(",").split(",")
    if all(place.isdecimal() for place in places) and devices != "0":
        return int(devices) if devices.isdecimal() else len(places)
    raise UsageError(f"devices is a number, places such as 0,2, or auto, not {devices!r}")


def wanted(settings: "TrainingConfig") -> int:
    """How many processes a training asks for, on all machines."""
    return max(1, devices_of(settings.devices)) * settings.num_nodes


def check_ranks(settings: "TrainingConfig") -> None:
    """UsageError where other processes were started than the settings ask for."""
    devices, nodes, size = devices_of(settings.devices), settings.num_nodes, launched()
    if size == 1:
        if wanted(settings) > 1:
            raise UsageError(
                f"devices={settings.devices} and num_nodes={nodes} take {wanted(settings)} processes, which `molattn "
                "train` starts, or torchrun; this is one alone"
            )
        return
    here = local_size()
    if devices not in (0, here):
        raise UsageError(f"torchrun started {here} processes on this machine, and devices={devices}: say it once")
    if nodes not in (1, size // here):
        raise UsageError(f"torchrun started processes on {size // here} machines, and num_nodes={nodes}: say it once")


@contextmanager
def together(settings: "TrainingConfig") -> Iterator[None]:
    """The ranks meet, and can talk for as long as the block lasts; one process alone is left alone.

    Raises:
        UsageError: other processes were started than the settings ask for.
        ProcessLost: another rank has ended.
    """
    global _together
    check_ranks(settings)
    if _together or launched() == 1:
        yield
        return
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        gpu = settings.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
        with _lost():
            dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", **_meeting())
    _together = True
    try:
        with _lost():
            yield
    finally:
        _together = False


def _meeting() -> dict[str, Any]:
    """Where the ranks find each other, for `init_process_group`: torch's own way, but on this machine alone where the
    address is a loopback one, as that of `molattn train --devices N` is."""
    host = os.environ.get("MASTER_ADDR", "").replace("localhost", "127.0.0.1")
    # Torchrun has made a store of its own.
    if "TORCHELASTIC_USE_AGENT_STORE" in os.environ or not host.startswith("127."):
        return {}
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] (it is documented there)
    from torch.distributed.distributed_c10d import default_pg_timeout

    names = {name for _, name in socket.if_nameindex()}
    if loopback := next((name for name in ("lo", "lo0") if name in names), ""):
        # Gloo would take the network that the host's name belongs to.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    mine, count, port = int(os.environ["RANK"]), launched(), int(os.environ["MASTER_PORT"])
    listening = None
    if mine == 0:
        # Left to itself, the store listens on all networks.
        with socket.create_server((host, port)) as server:
            listening = server.detach()
    # Torch 2.7's store with libuv takes no socket that listens already; the one without does in all of them.
    store = TCPStore(
        host, port, count, mine == 0, timeout=default_pg_timeout, master_listen_fd=listening, use_libuv=False
    )
    return {"store": store, "rank": mine, "world_size": count}


def size() -> int:
    """How many ranks train together."""
    return launched() if _together else 1


def rank() -> int:
    """Which of them this one is, from 0."""
    return int(os.environ["RANK"]) if _together else 0


def from_first(make: Callable[[], T]) -> T:
    """What the first rank makes, handed to all; its MolattnError is raised by all of them."""
    if size() == 1:
        return make()
    import torch.distributed as dist

    made: list[Any] = [None, None]
    if rank() == 0:
        try:
            made[0] = make()
        except MolattnError as error:
            made[1] = error
    dist.broadcast_object_list(made, src=0)
    if made[1] is not None:
        raise made[1]
    return made[0]


def gathered(mine: T) -> list[T]:
    """What each rank has, rank by rank; all of them get the same list."""
    if size() == 1:
        return [mine]
    import torch.distributed as dist

    found: list[Any] = [None] * size()
    dist.all_gather_object(found, mine)
    return found


def add_up(tensors: Iterable["Tensor"]) -> None:
    """Each tensor becomes the sum of those of all ranks, to the same bit everywhere."""
    if size() > 1:
        import torch.distributed as dist

        for x in tensors:
            dist.all_reduce(x)


def as_first(tensors: Iterable["Tensor"]) -> None:
    """Each tensor becomes that of the first rank."""
    if size() > 1:
        import torch.distributed as dist

        for x in tensors:
            dist.broadcast(x, src=0)


@contextmanager
def _lost() -> Iterator[None]:
    """What torch says of a rank that no longer answers, in words."""
    import torch.distributed as dist

    try:
        yield
    except RuntimeError as error:
        # Gloo has no error of its own.
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower():
            raise ProcessLost(
                "another process of this training has ended, or cannot be reached: see what it says; without it none "
                "goes on"
            ) from error
        raise
