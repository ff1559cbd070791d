"""One rank of run_suite: runs the tests that it is told on standard input, one
name a line, and answers each with a line of JSON. Starting Python and torch
takes seconds; so the ranks are started once, and get a new process group for
each test."""
import datetime
import gc
import json
import os
import sys
import traceback

import suite_tests
import torch
import torch.distributed as dist

TIMEOUT = datetime.timedelta(seconds=60)


class StoreBarrier:
    """The barrier of PyTorch's tests, without its files and pauses."""

    def __init__(self, store):
        self.store = store
        self.test = 0
        self.number = 0

    def next_test(self):
        self.test += 1
        self.number = 0

    def sync(self, wait_for=None, timeout=10):
        self.number += 1
        key = f"barrier/{self.test}/{self.number}"
        wait_for = wait_for or dist.get_world_size()
        if self.store.add(key, 1) == wait_for:
            self.store.set(key + "/all", "")
        else:
            self.store.wait([key + "/all"], datetime.timedelta(seconds=3 * timeout))


class Rank:
    def __init__(self, rank, size, port):
        self.rank = rank
        self.size = size
        self.store = dist.TCPStore("127.0.0.1", port, None, False, TIMEOUT)
        self.tests, self.reasons = suite_tests.load()
        self.barrier = StoreBarrier(self.store)
        self.tests.Barrier = self.barrier
        dist.monitored_barrier = suite_tests.monitored_barrier

    def run(self, name):
        self.barrier.next_test()
        as_gloo = suite_tests.AS_GLOO in self.reasons.get(name, ())
        self.tests.BACKEND = "gloo" if as_gloo else suite_tests.BACKEND
        self.tests.INIT_METHOD = "file://{}/init{}".format(
            os.environ["TEMP_DIR"], self.barrier.test)
        limit = self.tests.CUSTOM_PG_TIMEOUT.get(name, TIMEOUT.seconds)
        dist.init_process_group(
            suite_tests.BACKEND,
            store=dist.PrefixStore(str(self.barrier.test), self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=datetime.timedelta(seconds=limit))
        try:
            self.barrier.sync()
            getattr(suite_tests.make_case(self.tests, name, self.rank), name)()
            self.barrier.sync(wait_for=self.size)
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
        gc.collect()

    def outcome(self, name):
        try:
            self.run(name)
            return {"outcome": "passed"}
        except SystemExit as end:
            return {"outcome": "skipped", "why": suite_tests.skip_reason(end.code)}
        except Exception:
            return {"outcome": "failed", "why": traceback.format_exc()}


def main():
    rank, size, port = map(int, sys.argv[1:])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print
    torch.set_num_threads(1)
    one = Rank(rank, size, port)
    gc.freeze()  # what is loaded by now stays, and need not be looked at again
    for line in sys.stdin:
        answers.write(json.dumps(one.outcome(line.strip())) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
