"""PyTorch's own tests of torch.distributed, set up for the backend argosy.

They decide by the backend's name what to run. What a name cannot do is recorded
here instead, and set against what argosy does."""
import os
import re

import argosy_torch  # noqa: F401
import torch.distributed as dist
import torch.testing._internal.common_distributed as common_distributed
import torch.testing._internal.common_utils as common_utils

BACKEND = "argosy"

# Reasons for a skip that do not hold for us: they name a backend that can.
# What remains of them, such as a GPU, a test says when it runs.
HERE_ALL_THE_SAME = {
    "GLOO Batch Send Recv CPU",
    "Only Gloo backend support sparse all reduce",
    "Only MPI supports CPU all_to_all_single",
    "Only MPI supports all_to_all",
    "Only Nccl & Gloo backend support DistributedDataParallel",
    "Only gloo backend supports timeouts",
    "Test requires backend to be one of {'gloo', 'nccl'}",
    "Test requires backend to be one of {'gloo'}",
    "Test requires backends to be available {'gloo', 'nccl'}",
    "get_future is only supported on mpi, nccl and gloo",
}
# Their bodies choose the branch for the CPU by this name of the backend.
AS_GLOO = "get_future is only supported on mpi, nccl and gloo"


def _in_order(reason):
    """Python prints sets in another order each time."""
    return re.sub(
        r"{([^}]*)}", lambda match: "{" + ", ".join(sorted(match.group(1).split(", "))) + "}", reason)


def _record_reasons(reasons):
    def skip_if(condition, reason):
        reason = _in_order(reason)

        def decorate(function):
            if condition:
                reasons.setdefault(function.__name__, set()).add(reason)
            return function
        return decorate
    common_utils.sandcastle_skip_if = skip_if
    common_utils.sandcastle_skip = lambda reason: skip_if(True, reason)


def load():
    """The module of the tests, and for each name the reasons to skip it."""
    os.environ["BACKEND"] = BACKEND
    for feature in ("ddp", "subgroup", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add(BACKEND)
    reasons = {}
    _record_reasons(reasons)
    import torch.testing._internal.distributed.distributed_test as tests
    for supported in (
            tests.PROFILING_SUPPORTED_BACKENDS,
            tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
        supported.append(BACKEND)
    return tests, reasons


def names(tests):
    return sorted(
        name for name in dir(tests.DistributedTest._DistTestBase)
        if name.startswith("test_"))


def skip_reason(skip_code):
    """What an exit code of PyTorch's tests means, or None."""
    for skip in common_distributed.TEST_SKIPS.values():
        if skip.exit_code == skip_code:
            return skip.message
    return None


def make_case(tests, name, rank):
    """One test, to be called in a process group that exists."""
    class Case(tests.DistributedTest._DistTestBase, common_utils.TestCase):
        world_size = os.environ["WORLD_SIZE"]
    case = Case(name)
    case.rank = rank
    return case


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """As torch.distributed's, which refuses all names of backends but gloo."""
    group = dist.group.WORLD if group is None else group
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
