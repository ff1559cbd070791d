"""Makes the files of this folder; run it with PyTorch 2.6 (Debian 13's python3-torch).

usage: make.py DIR"""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def counting(*shape, start=0, dtype=torch.float32):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count) + start).to(dtype).view(shape)


def write_dcp(rank, folder, store):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state = {
        "model": {
            "rows.weight": distribute_tensor(counting(5, 3), mesh, [Shard(0)]),
            "columns.weight": distribute_tensor(counting(4, 6, start=100), mesh, [Shard(1)]),
            "norm.bias": distribute_tensor(counting(3, start=200, dtype=torch.bfloat16), mesh, [Replicate()]),
            "plain": counting(2, 2, start=300, dtype=torch.int64),
        },
        "optimizer": {
            "state": {"rows.weight": {"exp_avg": distribute_tensor(counting(5, 3, start=400), mesh, [Shard(0)]),
                                      "step": torch.tensor(7.0)}},
            "param_groups": [{"lr": 0.125, "betas": (0.9, 0.99), "params": ["rows.weight"]}],
        },
        "step": 7,
        "note": {"text": "made by DCP", "flags": [True, None]},
    }
    dcp.save(state, checkpoint_id=folder)
    dist.destroy_process_group()


def write_pt(folder):
    torch.manual_seed(0)
    model = torch.nn.Sequential()
    model.add_module("fc", torch.nn.Linear(3, 2))
    model.add_module("bn", torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for i, value in enumerate(model.state_dict().values()):
            value.copy_(counting(*value.shape, start=10 * i, dtype=value.dtype))
    torch.save(model.state_dict(), folder + "/state_dict.pt")
    whole = counting(4, 4)
    torch.save({"transposed": whole.t(), "row": whole[1], "every_second": whole[:, ::2],
                "expanded": torch.ones(1).expand(2, 3), "float8": torch.ones(4).to(torch.float8_e4m3fn),
                "words": torch.tensor([1, 65535], dtype=torch.uint16), "empty": torch.zeros(0, 3)},
               folder + "/views.pt")


def main():
    folder = sys.argv[1]
    write_pt(folder)
    store = folder + "/store"
    mp.spawn(write_dcp, args=(folder + "/dcp", store), nprocs=2)
    if os.path.exists(store):
        os.remove(store)


if __name__ == "__main__":
    main()
