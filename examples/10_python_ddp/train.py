"""Data-parallel training in Python on Argosy's collectives.

    argosy run -n 2 /usr/bin/python3 train.py

prints
    2 ranks, loss 9.4586 -> 0.0000
"""
import argosy_torch  # noqa: F401 -- registers the backend
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    dist.init_process_group("argosy")  # ranks and store from the launcher
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(64, 8)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = (model(x[rank::size]) - y[rank::size]).square().mean()
        loss.backward()  # gradients are averaged while it runs
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    if rank == 0:
        print(f"{size} ranks, loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
