"""PyTorch's distributed checkpoint (DCP): two processes save and load a sharded
state. Started once for each process: RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT are set. Prints from rank 0 "NAME SECONDS BYTES" as checkpoint_rank."""
import os
import shutil
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor

folder, megabytes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo")
mesh = DeviceMesh("cpu", list(range(dist.get_world_size())))
state = {f"p{i}": distribute_tensor(torch.full((2048, 2048), 0.5 + i), mesh, [Shard(0)])
         for i in range(megabytes // 16)}


def timed(name, action):
    dist.barrier()
    begin = time.perf_counter()
    action()
    seconds = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(name, seconds.item(), megabytes << 20, flush=True)


for i in range(rounds):
    path = f"{folder}/dcp{i}"  # a new one: DCP may wait for ever when it replaces one
    os.sync()
    timed("dcp_save", lambda: dcp.save(state, checkpoint_id=path))
    timed("dcp_load", lambda: dcp.load(state, checkpoint_id=path))
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(path)
dist.destroy_process_group()
