"""Distributed training: the process group, collective operations, and the device of each process.

Each rank runs the whole command and reads its rank from the environment variables that torchrun sets: RANK, WORLD_SIZE,
LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR and MASTER_PORT. `molattn train --devices N` sets the same ones.
The collective operations communicate within `process_group`; outside it the world size is 1 and they return at once.
Importing this module does not import torch.
"""

import atexit
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from molattn.errors import MolattnError, ProcessLost, UsageError
from molattn.training.signals import end_on_sigterm

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from molattn.training.config import TrainingConfig

T = TypeVar("T")


TERMINATION_GRACE_PERIOD = 5.0
"""Seconds after SIGTERM in which a rank can end by itself, before its process is ended."""

_in_process_group = False


def launched_world_size() -> int:
    """The number of processes that a launcher started, on all machines; 1 without a launcher."""
    return int(os.environ["WORLD_SIZE"]) if "RANK" in os.environ and "WORLD_SIZE" in os.environ else 1


def local_world_size() -> int:
    """The number of processes on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", launched_world_size()))


def is_main_process() -> bool:
    """Whether this process writes the files and reports progress: rank 0, or the only process."""
    return launched_world_size() == 1 or os.environ["RANK"] == "0"


def requested_devices(devices: str) -> int:
    """The number of processes on each machine that `training.devices` requests; 0 for "auto".

    >>> [requested_devices(text) for text in ("auto", "4", "0,2", "0,")]
    [0, 4, 2, 1]

    Raises:
        UsageError: `devices` has none of these forms.
    """
    if devices == "auto":
        return 0
    indices = devices.removesuffix(",").split(",")
    if all(index.isdecimal() for index in indices) and devices != "0":
        return int(devices) if devices.isdecimal() else len(indices)
    raise UsageError(f"devices is a number, indices such as 0,2, or auto, not {devices!r}")


def requested_world_size(settings: "TrainingConfig") -> int:
    """The number of processes that the settings request, on all machines."""
    return max(1, requested_devices(settings.devices)) * settings.num_nodes


def check_world_size(settings: "TrainingConfig") -> None:
    """Raise UsageError if the number of processes that were started differs from what the settings request."""
    devices, nodes, size = requested_devices(settings.devices), settings.num_nodes, launched_world_size()
    if size == 1:
        if (requested := requested_world_size(settings)) > 1:
            raise UsageError(
                f"devices={settings.devices} and num_nodes={nodes} take {requested} processes, which `molattn train` "
                "or torchrun starts; this is a single process"
            )
        return
    local = local_world_size()
    if devices not in (0, local):
        raise UsageError(f"torchrun started {local} processes on this machine, and devices={devices}: set only one")
    if nodes not in (1, size // local):
        raise UsageError(f"torchrun started processes on {size // local} machines, and num_nodes={nodes}: set only one")


@contextmanager
def process_group(settings: "TrainingConfig") -> Iterator[None]:
    """Initialize the process group for the duration of the block; does nothing for a single process.

    Raises:
        UsageError: the number of processes that were started differs from what the settings request.
        ProcessLost: another rank has ended.
    """
    global _in_process_group
    check_world_size(settings)
    if _in_process_group or launched_world_size() == 1:
        yield
        return
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        gpu = settings.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
        with _reports_lost_process():
            dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", **_rendezvous())
        # The group stays for further trainings of this process. Gloo's threads have to end before the interpreter does:
        # a thread that releases a Python object later aborts the process ("terminate called without an active
        # exception").
        atexit.register(_destroy_process_group)
    _in_process_group = True
    try:
        with _reports_lost_process(), end_on_sigterm(TERMINATION_GRACE_PERIOD):
            yield
    finally:
        _in_process_group = False


def _destroy_process_group() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def _rendezvous() -> dict[str, Any]:
    """Arguments of `init_process_group` by which the ranks find each other.

    Empty for torch's own rendezvous. With a loopback address, as `molattn train --devices N` sets it, a store that
    listens on this machine only.
    """
    host = os.environ.get("MASTER_ADDR", "").replace("localhost", "127.0.0.1")
    # Torchrun has created a store of its own.
    if "TORCHELASTIC_USE_AGENT_STORE" in os.environ or not host.startswith("127."):
        return {}
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] (it is documented there)
    from torch.distributed.distributed_c10d import default_pg_timeout

    names = {name for _, name in socket.if_nameindex()}
    if loopback := next((name for name in ("lo", "lo0") if name in names), ""):
        # Gloo would use the network interface that the host name resolves to.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    own_rank, count, port = int(os.environ["RANK"]), launched_world_size(), int(os.environ["MASTER_PORT"])
    listening = None
    if own_rank == 0:
        # By default the store listens on all networks.
        with socket.create_server((host, port)) as server:
            listening = server.detach()
    # Torch 2.7's libuv store does not accept a socket that is already listening; the older store does in all versions.
    store = TCPStore(
        host, port, count, own_rank == 0, timeout=default_pg_timeout, master_listen_fd=listening, use_libuv=False
    )
    return {"store": store, "rank": own_rank, "world_size": count}


def world_size() -> int:
    """The number of ranks in the process group; 1 outside it."""
    return launched_world_size() if _in_process_group else 1


def rank() -> int:
    """The rank of this process in the process group, from 0; 0 outside it."""
    return int(os.environ["RANK"]) if _in_process_group else 0


def broadcast_object(function: Callable[[], T]) -> T:
    """Call `function` on rank 0 and return its result on all ranks; a MolattnError is raised on all of them."""
    if world_size() == 1:
        return function()
    import torch.distributed as dist

    result: list[Any] = [None, None]
    if rank() == 0:
        try:
            result[0] = function()
        except MolattnError as error:
            result[1] = error
    dist.broadcast_object_list(result, src=0)
    if result[1] is not None:
        raise result[1]
    return result[0]


def all_gather(value: T) -> list[T]:
    """The values of all ranks, in the order of the ranks; the same list on every rank."""
    if world_size() == 1:
        return [value]
    import torch.distributed as dist

    values: list[Any] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values


def all_reduce(tensors: Iterable["Tensor"]) -> None:
    """Replace each tensor by its sum over all ranks, bitwise equal on every rank."""
    if world_size() > 1:
        import torch.distributed as dist

        for x in tensors:
            dist.all_reduce(x)


def broadcast(tensors: Iterable["Tensor"]) -> None:
    """Replace each tensor by that of rank 0."""
    if world_size() > 1:
        import torch.distributed as dist

        for x in tensors:
            dist.broadcast(x, src=0)


def select_device(config: "TrainingConfig") -> "torch.device":
    """The device of this process.

    `training.accelerator` is "cpu", "gpu" (or "cuda", the same), or "auto": a GPU if there is one, otherwise the CPU.
    With several GPUs each rank uses the one at its local rank, among those in `training.devices`.

    >>> from molattn.training.config import TrainingConfig
    >>> select_device(TrainingConfig(accelerator="cpu"))
    device(type='cpu')

    Raises:
        UsageError: there is no such device here, or several are requested from one process.
    """
    import torch

    from molattn.models.device import ACCELERATORS

    name = config.accelerator
    if name not in ACCELERATORS:
        raise UsageError(f"training.accelerator is one of {', '.join(ACCELERATORS)}, not {name!r}")
    if world_size() == 1 and requested_world_size(config) > 1:
        raise UsageError("only `molattn train` and `molattn.train` can train on several devices: give one")
    gpu = torch.cuda.is_available()
    if name in ("gpu", "cuda") and not gpu:
        raise UsageError(f"training.accelerator={name}, and torch finds no GPU here: see `molattn doctor`")
    if name == "cpu" or not gpu:
        return torch.device("cpu")
    index = int(os.environ["LOCAL_RANK"]) if world_size() > 1 else 0
    if "," in config.devices:
        index = int(config.devices.removesuffix(",").split(",")[index])
    if index >= torch.cuda.device_count():
        raise UsageError(f"training.devices: there is no GPU {index} here, only {torch.cuda.device_count()}")
    return torch.device("cuda", index)


@contextmanager
def _reports_lost_process() -> Iterator[None]:
    """Raise ProcessLost where torch reports that another rank does not respond."""
    import torch.distributed as dist

    try:
        yield
    except RuntimeError as error:
        # Gloo has no exception class of its own.
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower():
            raise ProcessLost(
                "another process of this training has ended, or cannot be reached: see its messages; the others cannot "
                "continue without it"
            ) from error
        raise
