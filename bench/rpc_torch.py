"""torch.distributed.rpc beside bench/rpc.cpp. usage: rpc_torch.py RANK STORE_FILE

Rank 0 reads lines "echo|sink SIZE COUNT", "rate SIZE COUNT" or "tail COUNT 0|1"
and answers each with a number; rank 1 is called."""
import collections
import os
import sys
import time

import torch
import torch.distributed.rpc as rpc

IN_FLIGHT = 256
SLOW_CALL = 0.005
SLOW_EVERY = 100


def echo(tensor):
    return tensor


def sink(tensor):
    return None


def slow():
    time.sleep(SLOW_CALL)


def microseconds(call):
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def quantile(times, which):
    return sorted(times)[int(which * (len(times) - 1))]


def rate(tensor, count):
    began = time.perf_counter()
    futures = collections.deque()
    for _ in range(count):
        futures.append(rpc.rpc_async("worker1", echo, args=(tensor,)))
        if len(futures) == IN_FLIGHT:
            futures.popleft().wait()
    for future in futures:
        future.wait()
    return count / (time.perf_counter() - began)


def tail(count, with_slow):
    tensor = torch.zeros(64, dtype=torch.uint8)
    times = []
    pending = []
    for i in range(1, count + 1):
        if with_slow and i % SLOW_EVERY == 0:
            pending.append(rpc.rpc_async("worker1", slow))
        times.append(microseconds(lambda: rpc.rpc_sync("worker1", echo, args=(tensor,))))
    for future in pending:
        future.wait()
    return quantile(times, 0.99)


def answer(what, first, second):
    if what == "tail":
        return tail(first, second != 0)
    tensor = torch.zeros(first, dtype=torch.uint8)
    if what == "rate":
        return rate(tensor, second)
    function = sink if what == "sink" else echo
    call = lambda: rpc.rpc_sync("worker1", function, args=(tensor,))
    return quantile([microseconds(call) for _ in range(second)], 0.5)


def main():
    rank = int(sys.argv[1])
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(init_method="file://" + sys.argv[2])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        print("ready", flush=True)
        for line in sys.stdin:
            what, first, second = line.split()
            print(answer(what, int(first), int(second)), flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
