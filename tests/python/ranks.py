"""Real processes as ranks, for the tests of argosy_torch."""
import datetime
import os
import subprocess
import sys
import tempfile

import argosy_torch  # noqa: F401
import torch
import torch.distributed as dist

LIMIT = 60  # seconds for all ranks together


def run(size, script, function, *arguments, may_die=()):
    """Calls function(rank, size, *arguments) of a script in `size` processes,
    each a rank of a process group. Returns what they print; fails if one of
    them does, except those that may die."""
    with tempfile.TemporaryDirectory() as directory:
        processes = []
        for rank in range(size):
            environment = dict(
                os.environ, ARGOSY_TEST_DIR=directory, OMP_NUM_THREADS="1",
                RANK=str(rank), WORLD_SIZE=str(size), RANK_FUNCTION=function)
            processes.append(subprocess.Popen(
                [sys.executable, script, *map(str, arguments)], env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        outputs = []
        try:
            for process in processes:
                outputs.append(process.communicate(timeout=LIMIT)[0])
        finally:
            for process in processes:
                process.kill()
                process.wait()
        for rank, process in enumerate(processes):
            if process.returncode != 0 and rank not in may_die:
                raise AssertionError(
                    f"rank {rank} ended with {process.returncode}:\n{outputs[rank]}")
        return outputs


def is_rank():
    return "RANK_FUNCTION" in os.environ


def run_as_rank(functions, timeout=datetime.timedelta(seconds=30)):
    """In such a process: joins the group and calls the function."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "argosy",
        init_method="file://" + os.path.join(os.environ["ARGOSY_TEST_DIR"], "store"),
        rank=rank, world_size=size, timeout=timeout)
    functions[os.environ["RANK_FUNCTION"]](rank, size, *sys.argv[1:])
    dist.destroy_process_group()
