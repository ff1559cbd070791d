"""Tensors distributed over a mesh of ranks.

    from argosy_torch import dtensor as dt

    dt.init_parallel_env()                       # argosy run -n 2 python3 ...
    mesh = dt.ProcessMesh([0, 1])
    x = dt.shard_tensor(data, mesh, [dt.Shard(0)])
    w = dt.shard_tensor(weight, mesh, [dt.Replicate()]).requires_grad_()
    loss = torch.nn.functional.linear(x, w).sum()
    loss.backward()
    dt.full_tensor(w.grad)

A DTensor is a torch.Tensor with the global shape; torch's functions, modules
and optimizers accept it. All ranks of a mesh must run the same ops in the same
order. Ranks are processes, or threads of one (run_ranks). Errors are
RuntimeError. See docs/dtensor.md."""
import copy
import dataclasses
import functools
import itertools
import os
import pathlib
import threading

import torch

torch.ops.load_library(str(pathlib.Path(__file__).with_name("libargosy_ops.so")))
_ops = torch.ops.argosy

__all__ = [
    "Partial", "ProcessMesh", "Replicate", "Shard", "destroy_process_group", "from_local", "full_tensor",
    "get_rank", "get_world_size", "init_parallel_env", "is_dtensor", "manual_seed", "placements_of",
    "process_mesh_of", "rand", "randn", "reshard", "run_ranks", "shard_tensor", "to_local"]


@dataclasses.dataclass(frozen=True)
class Shard:
    """The ranks of the mesh axis hold chunks of a tensor dim."""
    dim: int

    def __str__(self):
        return f"S({self.dim})"


@dataclasses.dataclass(frozen=True)
class Replicate:
    """All ranks of the mesh axis hold the same values."""

    def __str__(self):
        return "R"


@dataclasses.dataclass(frozen=True)
class Partial:
    """The value is the reduction over the ranks of the mesh axis."""
    op: str = "sum"

    def __str__(self):
        return f"P({self.op})"


def _placement(text):
    if text == "R":
        return Replicate()
    inner = text[2:-1]
    return Shard(int(inner)) if text[0] == "S" else Partial(inner)


class ProcessMesh:
    """An n-dimensional array of ranks with named axes: ProcessMesh([0, 1]),
    ProcessMesh([[0, 1], [2, 3]], ["dp", "mp"])."""

    def __init__(self, mesh, dim_names=None):
        ranks = torch.as_tensor(mesh)
        self.shape = list(ranks.shape)
        self.process_ids = ranks.flatten().tolist()
        self.dim_names = list(dim_names or (f"d{axis}" for axis in range(ranks.dim())))
        if len(self.dim_names) != len(self.shape):
            raise ValueError(f"{len(self.dim_names)} names for a mesh of {len(self.shape)} axes")

    @property
    def ndim(self):
        return len(self.shape)

    def __eq__(self, other):
        return (isinstance(other, ProcessMesh) and self.shape == other.shape
                and self.process_ids == other.process_ids)

    def __hash__(self):
        return hash((tuple(self.shape), tuple(self.process_ids)))

    def __repr__(self):
        return f"ProcessMesh(shape={self.shape}, process_ids={self.process_ids}, dim_names={self.dim_names})"


def _where(mesh, placements):
    return mesh.shape, mesh.process_ids, [str(each) for each in placements]


def shard_tensor(data, mesh, placements):
    """Makes a DTensor of `data`, which must be equal on all ranks, without
    communication. Reshards if `data` is a DTensor."""
    return _ops.shard_tensor(data, *_where(mesh, placements))


def from_local(local, mesh, placements, shape=None):
    """Makes a DTensor whose shard on this rank is `local`. Without a global
    shape, all shards must have the shape of this one."""
    return _ops.from_local(local, *_where(mesh, placements), list(shape or []))


def to_local(dtensor):
    """Returns this rank's shard, without communication."""
    return _ops.to_local(dtensor)


def reshard(dtensor, mesh, placements):
    """Returns the tensor with other placements, on this mesh or another."""
    return _ops.reshard(dtensor, *_where(mesh, placements))


def full_tensor(dtensor):
    """Gathers the tensor as a plain one on every rank."""
    return _ops.full_tensor(dtensor)


def is_dtensor(value):
    return isinstance(value, torch.Tensor) and _ops.is_dtensor(value)


def placements_of(dtensor):
    return [_placement(text) for text in _ops.placements_of(dtensor)]


def process_mesh_of(dtensor):
    """Returns the mesh; its axes have default names."""
    ranks = torch.tensor(_ops.mesh_ranks_of(dtensor))
    return ProcessMesh(ranks.reshape(_ops.mesh_shape_of(dtensor)))


def rand(shape, mesh, placements):
    """Uniform in [0, 1): the same values on every mesh and placement."""
    return _ops.rand(list(shape), *_where(mesh, placements))


def randn(shape, mesh, placements):
    """Normal with mean 0 and deviation 1; likewise."""
    return _ops.randn(list(shape), *_where(mesh, placements))


def manual_seed(seed):
    """Seeds the random numbers of DTensors. Call it with the same seed on all ranks."""
    _ops.manual_seed(seed)


def init_parallel_env(timeout=None):
    """Makes this process a rank of the job that started it, for example with
    `argosy run`, and waits for the others. `timeout` (in seconds) also limits
    later waits."""
    _ops.init_parallel_env(timeout)


def destroy_process_group():
    _ops.destroy_process_group()


def get_rank():
    return _ops.get_rank()


def get_world_size():
    return _ops.get_world_size()


_jobs = itertools.count()


class _ThreadRanks:
    def __init__(self, size, timeout):
        self.name = f"python-{os.getpid()}-{next(_jobs)}"
        self.size = size
        self.timeout = timeout
        self.results = [None] * size
        self.failures = []  # (rank, error), the first one first

    def run(self, rank, function, arguments):
        try:
            _ops.join_thread_ranks(self.name, rank, self.size, self.timeout)
            self.results[rank] = function(*arguments)
            _ops.destroy_process_group()
        except BaseException as error:
            self.failures.append((rank, error))
            _ops.abort_thread_ranks(self.name, f"rank {rank} failed: {error}")
        finally:
            _ops.leave_thread_ranks()


def run_ranks(size, function, *arguments, timeout=60):
    """Calls function(*arguments) on `size` ranks that are threads of this
    process, and returns their results. If one raises, waits of the others end,
    and the error is raised here. `timeout` (in seconds) limits every wait."""
    ranks = _ThreadRanks(size, timeout)
    threads = [
        threading.Thread(target=ranks.run, args=(rank, function, arguments), daemon=True)
        for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if ranks.failures:
        rank, error = ranks.failures[0]
        raise RuntimeError(f"rank {rank} of {size} failed: {error}") from error
    return ranks.results


# Methods of torch.Tensor that read memory without the dispatcher. A DTensor has
# no memory of its own, so they are replaced.

def _text(dtensor):
    """Needs no communication, so that a single rank may print."""
    gradient = ", requires_grad=True" if dtensor.requires_grad else ""
    placements = ", ".join(map(str, placements_of(dtensor)))
    with torch.no_grad():
        part = to_local(dtensor.detach())
    return (f"DTensor(shape={list(dtensor.shape)}, placements=[{placements}], "
            f"mesh={process_mesh_of(dtensor)}, local={part!r}{gradient})")


def _deepcopy(dtensor, memo):
    if not dtensor.is_leaf:
        raise RuntimeError("[dtensor.deepcopy] only leaves of the graph can be copied")
    with torch.no_grad():
        twin = dtensor.detach().clone()
    twin.requires_grad_(dtensor.requires_grad)
    if dtensor.grad is not None:
        twin.grad = copy.deepcopy(dtensor.grad, memo)
    memo[id(dtensor)] = twin
    return twin


def _refuse(name, dtensor):
    raise RuntimeError(
        f"[dtensor.{name}] a DTensor has no memory of its own; use full_tensor() or to_local()")


def _instead(name, replacement):
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def method(self, *arguments, **keywords):
        if is_dtensor(self):
            return replacement(self, *arguments, **keywords)
        return original(self, *arguments, **keywords)
    setattr(torch.Tensor, name, method)


def _guard_methods():
    _instead("__repr__", lambda self, **_: _text(self))
    _instead("__deepcopy__", _deepcopy)
    _instead("tolist", lambda self: full_tensor(self.detach()).tolist())
    for name in ("numpy", "data_ptr", "storage", "share_memory_", "__reduce_ex__", "__array__", "__dlpack__"):
        _instead(name, lambda self, *_, name=name, **__: _refuse(name, self))


_guard_methods()
