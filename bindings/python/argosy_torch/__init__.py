"""Argosy as a backend of torch.distributed.

    import argosy_torch
    torch.distributed.init_process_group("argosy")

Ranks of one host communicate through their memory, others through the network;
see docs/python.md. argosy_torch.dtensor has tensors distributed over ranks."""
import torch  # loads the libraries that the extension needs
import torch.distributed as dist

from . import _C

__all__ = ["register", "share_tensor_memory"]


def _create(options, pg_options):
    if pg_options is not None:
        raise RuntimeError("[comm.init] the backend argosy takes no pg_options")
    return _C.make_process_group(
        store=options.store,
        rank=options.group_rank,
        size=options.group_size,
        timeout=options.timeout,
        name=options.group_id,
        global_ranks=options.global_ranks_in_group,
    )


def register():
    """Registers the backend. Importing the module does this."""
    if not hasattr(dist.Backend, "ARGOSY"):
        dist.Backend.register_backend("argosy", _create, extended_api=True)


def share_tensor_memory():
    """Allocates large CPU tensors of this process in memory that the other ranks
    of the host can map, so that collectives read and write them in place. Call
    it on all ranks before init_process_group. Processes forked later, for
    example by a DataLoader, share inherited tensors with this one. Returns
    whether shared memory is in use."""
    return _C.share_tensor_memory()


register()
