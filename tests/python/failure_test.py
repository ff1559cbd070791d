"""What the other ranks see when one dies, stalls, disagrees or leaves."""
import datetime
import os
import signal
import time
import unittest

import ranks
import torch
import torch.distributed as dist

CHECK = unittest.TestCase()
SOON = 1.0  # seconds


def a_rank_dies(rank, size):
    beside = dist.new_group()
    if rank == 0:
        receive = dist.irecv(torch.ones(10), 1, group=beside)
    if rank != 1:
        work = dist.all_reduce(torch.ones(1000), async_op=True)
    dist.new_group()  # all are here, over the store
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    with CHECK.assertRaisesRegex(RuntimeError, "rank 1 of group 0 died"):
        work.wait()
    CHECK.assertLess(time.monotonic() - began, SOON)
    CHECK.assertFalse(work.is_success())
    with CHECK.assertRaisesRegex(RuntimeError, "rank 1"):
        work.get_future().wait()
    with CHECK.assertRaisesRegex(RuntimeError, "rank 1"):  # and never again
        dist.barrier()
    if rank == 0:
        with CHECK.assertRaisesRegex(RuntimeError, "rank 1"):
            receive.wait()


def stalls(rank, size):
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        began = time.monotonic()
        with CHECK.assertRaisesRegex(RuntimeError, r"rank 1 .*\(all_reduce of .* Timed out"):
            dist.all_reduce(torch.ones(5), group=group)
        CHECK.assertAlmostEqual(time.monotonic() - began, 1, delta=SOON)
    dist.barrier()  # other groups go on


def is_slower_than_a_wait(rank, size):
    if rank == 0:
        work = dist.all_reduce(torch.ones(5), async_op=True)
        with CHECK.assertRaisesRegex(RuntimeError, "timed out"):
            work.wait(datetime.timedelta(milliseconds=100))
        CHECK.assertFalse(work.is_completed())
        dist.new_group()
        CHECK.assertTrue(work.wait())  # the operation itself was not harmed
    else:
        dist.new_group()
        dist.all_reduce(torch.ones(5))


def disagrees(rank, size):
    group = dist.new_group()
    with CHECK.assertRaisesRegex(RuntimeError, "disagree.*rank . calls .*rank . calls ") as caught:
        dist.all_reduce(torch.ones(3 + rank), group=group)
    for each in (0, 1):
        CHECK.assertIn(f"rank {each} calls all_reduce of {3 + each} float32", str(caught.exception))


def disagrees_about_a_message(rank, size):
    group = dist.new_group()
    with CHECK.assertRaisesRegex(RuntimeError, "rank"):
        if rank == 0:
            dist.recv(torch.ones(4), 1, group=group)
        else:
            dist.send(torch.ones(3), 0, group=group)
            dist.recv(torch.ones(1), 0, group=group)


def leaves(rank, size):
    if rank == 0:
        # Never comes to an end. Letting go of the group must not wait for it.
        dist.all_reduce(torch.ones(5), async_op=True)
        began = time.monotonic()
        dist.destroy_process_group()
        CHECK.assertLess(time.monotonic() - began, 8)
        dist.init_process_group("argosy", store=dist.HashStore(), rank=0, world_size=1)
        return
    with CHECK.assertRaisesRegex(RuntimeError, "rank 0"):
        dist.recv(torch.ones(5), 0)


def all_live(rank, size):
    for function in (stalls, is_slower_than_a_wait, disagrees, disagrees_about_a_message, leaves):
        function(rank, size)


class Failure(unittest.TestCase):
    def test_a_rank_dies(self):
        ranks.run(3, __file__, "a_rank_dies", may_die=[1])

    def test_a_rank_stalls_disagrees_or_leaves(self):
        ranks.run(2, __file__, "all_live")


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.run_as_rank({f.__name__: f for f in (a_rank_dies, all_live)})
    else:
        unittest.main()
