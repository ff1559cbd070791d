"""DistributedDataParallel on argosy trains what one process would."""
import unittest

import ranks
import torch
import torch.nn.functional as F

STEPS = 5
BATCH = 12  # of all ranks together


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    ).double()


def train(model, part):
    """Part of every batch; the loss is the mean over it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        torch.manual_seed(100 + step)
        x, y = torch.randn(BATCH, 8).double(), torch.randn(BATCH, 4).double()
        optimizer.zero_grad()
        F.mse_loss(model(x[part]), y[part]).backward()
        optimizer.step()
    return model


def trains_alike(rank, size):
    alone = train(make_model(), slice(None))
    model = make_model()
    if rank > 0:  # which DDP must overwrite
        for parameter in model.parameters():
            parameter.data.zero_()
    # Buckets of a few KB, so that several are under way at once.
    together = train(
        torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.005), slice(rank, None, size))
    for expected, actual in zip(alone.parameters(), together.parameters()):
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


class Embedding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(10, 3, sparse=True)

    def forward(self, x):
        return self.table(x).sum()


def trains_sparse_gradients(rank, size):
    model = torch.nn.parallel.DistributedDataParallel(Embedding())
    model(torch.tensor([rank, 9])).backward()
    expected = torch.zeros(10, 3)
    expected[9] = 1
    expected[:size] = 1 / size
    torch.testing.assert_close(model.module.table.weight.grad.to_dense(), expected)


def trains(rank, size):
    trains_alike(rank, size)
    trains_sparse_gradients(rank, size)


class Ddp(unittest.TestCase):
    def test_two_ranks(self):
        ranks.run(2, __file__, "trains")

    def test_three_ranks(self):
        ranks.run(3, __file__, "trains")


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.run_as_rank({"trains": trains})
    else:
        unittest.main()
