"""usage: dtensor_test.py ARGOSY [--rank]

DTensors in Python, on ranks that are threads and on real processes."""
import copy
import pickle
import subprocess
import sys
import time
import unittest

import torch
import torch.nn.functional as F

from argosy_torch import dtensor as dt

CHECK = unittest.TestCase()
DATA = torch.arange(20.0).reshape(5, 4)
MESH = dt.ProcessMesh([0, 1])


def trains_a_module():
    """Weights cut in two, as the whole model would train."""
    def train(model, x):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    def model():
        layers = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 2))
        for parameter in layers.parameters():
            parameter.data = torch.arange(parameter.numel()).reshape(parameter.shape) / 50
        return layers
    expected = train(model(), DATA)
    sharded = model()
    for layer, dim in ((sharded[0], 0), (sharded[2], 1)):
        layer.weight = torch.nn.Parameter(dt.shard_tensor(layer.weight.data, MESH, [dt.Shard(dim)]))
        layer.bias = torch.nn.Parameter(dt.shard_tensor(layer.bias.data, MESH, [dt.Replicate()]))
    trained = train(sharded, dt.shard_tensor(DATA, MESH, [dt.Replicate()]))
    for ours, theirs in zip(trained, expected):
        torch.testing.assert_close(dt.full_tensor(ours), theirs)
    CHECK.assertEqual(dt.placements_of(trained[0]), [dt.Shard(0)])


def moves():
    x = dt.shard_tensor(DATA, MESH, [dt.Shard(0)])
    CHECK.assertTrue(dt.is_dtensor(x))
    CHECK.assertFalse(dt.is_dtensor(DATA))
    CHECK.assertEqual(dt.process_mesh_of(x), MESH)
    CHECK.assertEqual(dt.to_local(x).tolist(), DATA[3 * dt.get_rank():][:3].tolist())
    y = dt.reshard(x, MESH, [dt.Shard(1)])
    CHECK.assertEqual(dt.placements_of(y), [dt.Shard(1)])
    CHECK.assertEqual(dt.to_local(y).shape, (5, 2))
    CHECK.assertEqual(y.tolist(), DATA.tolist())
    parts = dt.from_local(torch.full((2, 1), dt.get_rank() + 1.0), MESH, [dt.Partial()])
    CHECK.assertEqual(dt.full_tensor(parts).tolist(), [[3], [3]])
    uneven = dt.from_local(dt.to_local(x), MESH, [dt.Shard(0)], (5, 4))
    CHECK.assertTrue(torch.equal(dt.full_tensor(uneven), DATA))


def draws_alike():
    dt.manual_seed(7)
    one = dt.randn((5, 4), MESH, [dt.Shard(0)])
    dt.manual_seed(7)
    other = dt.randn((5, 4), MESH, [dt.Replicate()])
    CHECK.assertTrue(torch.equal(dt.full_tensor(one), dt.to_local(other)))
    CHECK.assertEqual(dt.rand((3,), MESH, [dt.Shard(0)]).shape, (3,))


def gives_up_the_lock():
    """torch keeps Python's lock in some of these, which wait for other ranks."""
    x = dt.shard_tensor(DATA, MESH, [dt.Shard(0)])
    for _ in range(20):
        CHECK.assertEqual(x[3, 1].item(), 13)
        CHECK.assertEqual(float(x[1:, 0].sum()), 40)
        CHECK.assertEqual(x[torch.tensor([4, 0])][:, 1].tolist(), [17, 1])
        CHECK.assertTrue(x.max() == 19)
        CHECK.assertEqual(len(list(x)), 5)


def changes_shape_in_place():
    x = dt.shard_tensor(DATA, MESH, [dt.Shard(0)])
    x.t_()
    CHECK.assertEqual((x.shape, dt.placements_of(x)), ((4, 5), [dt.Shard(1)]))
    x.unsqueeze_(0)
    CHECK.assertEqual(x.tolist(), [DATA.t().tolist()])


def prints_alone():
    """No other rank need take part."""
    x = dt.shard_tensor(DATA, MESH, [dt.Shard(0)]).requires_grad_()
    if dt.get_rank() == 1:
        text = f"{x} {[x]}"
        CHECK.assertIn("DTensor(shape=[5, 4], placements=[S(0)]", text)
        CHECK.assertIn("[16., 17., 18., 19.]", text)
        CHECK.assertIn("requires_grad=True", text)


def copies_and_refusals():
    x = dt.shard_tensor(DATA, MESH, [dt.Shard(1)]).requires_grad_()
    twin = copy.deepcopy(x)
    with torch.no_grad():
        twin.add_(1)
    CHECK.assertEqual(dt.full_tensor((twin - x).detach()).unique().tolist(), [1])
    CHECK.assertTrue(twin.requires_grad)
    for refused in (
            x.detach().numpy, x.data_ptr, x.storage, lambda: pickle.dumps(x),
            lambda: dt.shard_tensor(DATA.to_sparse(), MESH, [dt.Shard(0)])):
        with CHECK.assertRaisesRegex(RuntimeError, r"\[dtensor\."):
            refused()
    with CHECK.assertRaisesRegex(RuntimeError, r"'Q', expected such as S\(0\)"):
        dt.shard_tensor(DATA, MESH, ["Q"])
    with CHECK.assertRaisesRegex(RuntimeError, r"\[S\(2\)\] for a tensor of 2 dims"):
        dt.shard_tensor(DATA, MESH, [dt.Shard(2)])
    with CHECK.assertRaisesRegex(RuntimeError, "a plain tensor, expected a DTensor"):
        dt.to_local(DATA)


FUNCTIONS = (
    trains_a_module, moves, draws_alike, gives_up_the_lock, changes_shape_in_place, prints_alone,
    copies_and_refusals)


def all_of_them():
    for function in FUNCTIONS:
        function()


class DTensor(unittest.TestCase):
    def test_thread_ranks(self):
        dt.run_ranks(2, all_of_them)

    def test_process_ranks(self):
        subprocess.run(
            [ARGOSY, "run", "-n", "2", sys.executable, __file__, ARGOSY, "--rank"], timeout=60, check=True)

    def test_ranks_return(self):
        self.assertEqual(dt.run_ranks(3, lambda: (dt.get_rank(), dt.get_world_size())), [(0, 3), (1, 3), (2, 3)])

    def test_a_rank_that_fails_ends_the_others(self):
        def body():
            x = dt.shard_tensor(DATA, MESH, [dt.Shard(0)])
            if dt.get_rank() == 1:
                raise ValueError("enough")
            dt.full_tensor(x)
        began = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, "rank 1 of 2 failed: enough"):
            dt.run_ranks(2, body)
        self.assertLess(time.monotonic() - began, 10)

    def test_a_rank_that_does_not_come_is_a_timeout(self):
        def body():
            if dt.get_rank() == 0:
                dt.full_tensor(dt.shard_tensor(DATA, MESH, [dt.Shard(0)]))
        with self.assertRaisesRegex(RuntimeError, "rank 0 of 2 failed"):
            dt.run_ranks(2, body, timeout=1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    ARGOSY = sys.argv.pop(1)
    if sys.argv[1:] == ["--rank"]:
        dt.init_parallel_env(timeout=30)
        all_of_them()
        dt.destroy_process_group()
    else:
        unittest.main()
