"""Every collective of torch.distributed on argosy against what it should give,
with inputs that are exact in all types."""
import sys
import unittest

import argosy_torch
import ranks
import torch
import torch.distributed as dist

TYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
    torch.uint8, torch.int16, torch.int32, torch.int64]
SIZES = [0, 1, 7, 1000, 300_000]


def value(rank, count, dtype):
    """Small whole numbers, another for each rank and place."""
    return ((torch.arange(count) * (rank + 1) + rank) % 5 + 1).to(dtype)


def expect(actual, expected, what):
    assert torch.equal(actual, expected), f"{what}: {actual} instead of {expected}"


def reduced(op, inputs):
    result = inputs[0].clone()
    for each in inputs[1:]:
        result = op(result, each)
    return result


def each_type_and_size(check):
    for dtype in TYPES:
        for count in SIZES if dtype == torch.float32 else [0, 1, 7, 1000]:
            check(dtype, count)


REDUCTIONS = {
    dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum, dist.ReduceOp.MAX: torch.maximum}
BITWISE = {
    dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor}


def reductions(rank, size):
    def check(dtype, count):
        inputs = [value(r, count, dtype) for r in range(size)]
        table = dict(REDUCTIONS)
        if not dtype.is_floating_point:
            table.update(BITWISE)
        for op, oracle in table.items():
            expected = reduced(oracle, inputs)
            tensor = inputs[rank].clone()
            dist.all_reduce(tensor, op)
            expect(tensor, expected, f"all_reduce {dtype} {count} {op}")
            tensor = inputs[rank].clone()
            dist.reduce(tensor, size - 1, op)
            expect(tensor, expected if rank == size - 1 else inputs[rank], f"reduce {dtype} {count}")
    each_type_and_size(check)
    tensor = torch.full((5,), 6. * (rank + 1))
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    expect(tensor, torch.full((5,), 3. * (size + 1)), "average")


def copies(rank, size):
    def check(dtype, count):
        inputs = [value(r, count, dtype) for r in range(size)]
        tensor = inputs[rank].clone()
        dist.broadcast(tensor, size - 1)
        expect(tensor, inputs[size - 1], "broadcast")
        outputs = [torch.empty_like(tensor) for _ in range(size)]
        dist.all_gather(outputs, inputs[rank])
        for r in range(size):
            expect(outputs[r], inputs[r], "all_gather")
        output = torch.empty(size * count, dtype=dtype)
        dist.all_gather_into_tensor(output, inputs[rank])
        expect(output, torch.cat(inputs), "all_gather_into_tensor")
        outputs = [torch.empty_like(tensor) for _ in range(size)] if rank == 1 else None
        dist.gather(inputs[rank], outputs, 1)
        for r in range(size if rank == 1 else 0):
            expect(outputs[r], inputs[r], "gather")
        tensor = torch.empty(count, dtype=dtype)
        dist.scatter(tensor, inputs if rank == 1 else None, 1)
        expect(tensor, inputs[rank], "scatter")
    each_type_and_size(check)


def exchanges(rank, size):
    def check(dtype, count):
        def part(source, target):
            return value(source * size + target, count, dtype)
        inputs = [part(rank, r) for r in range(size)]
        outputs = [torch.empty(count, dtype=dtype) for _ in range(size)]
        dist.all_to_all(outputs, inputs)
        for r in range(size):
            expect(outputs[r], part(r, rank), "all_to_all")
        output = torch.empty(count * size, dtype=dtype)
        dist.all_to_all_single(output, torch.cat(inputs))
        expect(output, torch.cat(outputs), "all_to_all_single")
        total = reduced(torch.add, outputs)
        output = torch.empty(count, dtype=dtype)
        dist.reduce_scatter(output, inputs)
        expect(output, total, "reduce_scatter")
        output = torch.empty(count, dtype=dtype)
        dist.reduce_scatter_tensor(output, torch.cat(inputs))
        expect(output, total, "reduce_scatter_tensor")
    each_type_and_size(check)
    # Rank r sends r + t rows to rank t.
    rows = [rank + r for r in range(size)]
    output = torch.empty(sum(rows), 3)
    dist.all_to_all_single(output, torch.full((sum(rows), 3), float(rank)), rows, rows)
    expect(output, torch.cat([torch.full((rank + r, 3), float(r)) for r in range(size)]), "splits")


def lists(rank, size):
    tensors = [torch.full((n,), rank + n) for n in (1, 3, 1000)]
    dist.all_reduce_coalesced(tensors)
    for n, tensor in zip((1, 3, 1000), tensors):
        expect(tensor, torch.full((n,), sum(r + n for r in range(size))), "all_reduce_coalesced")
    outputs = [[torch.empty(2), torch.empty(5)] for _ in range(size)]
    dist.all_gather_coalesced(outputs, [torch.full((2,), 1. * rank), torch.full((5,), rank + .5)])
    for r in range(size):
        expect(outputs[r][0], torch.full((2,), 1. * r), "all_gather_coalesced")
        expect(outputs[r][1], torch.full((5,), r + .5), "all_gather_coalesced")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": r, "text": "x" * r} for r in range(size)], objects


def strided(rank, size):
    tensor = torch.full((6, 4), 1. * rank + 1).t()
    assert not tensor.is_contiguous()
    dist.all_reduce(tensor)
    expect(tensor, torch.full((4, 6), size * (size + 1) / 2), "strided all_reduce")
    whole = torch.zeros(4, 10)
    dist.broadcast(whole[:, ::2].fill_(rank), 1)
    expect(whole[:, ::2], torch.ones(4, 5), "strided broadcast")
    expect(whole[:, 1::2], torch.zeros(4, 5), "what lies between")
    parameter = torch.nn.Parameter(torch.full((3, 2), 1. * rank).t())
    dist.broadcast(parameter.data, 1)
    dist.broadcast(parameter, 1)
    expect(parameter.detach(), torch.ones(2, 3), "parameter")


def sparse(rank, size):
    # Rank r has rows 0 to r; row 0 of all adds up.
    own = torch.sparse_coo_tensor([list(range(rank + 1))], torch.ones(rank + 1, 2), (size, 2))
    dist.all_reduce(own)
    expected = torch.tensor([[float(size - row)] * 2 for row in range(size)])
    expect(own.to_dense(), expected, "sparse all_reduce")


def asynchronous(rank, size):
    tensors = [torch.full((n,), 1. * rank) for n in (1, 100_000, 10)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works]
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed() and work.is_success()
    for tensor, future, work in zip(tensors, futures, works):
        expect(tensor, torch.full_like(tensor, size * (size - 1) / 2), "async")
        assert future.done() and future.value()[0] is not None
        expect(work.result()[0], tensor, "result")
    doubled = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(
        lambda future: future.value()[0] * 2)
    expect(doubled.wait(), torch.full((4,), 2. * size), "then")


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    # All receive before they send, late tags first.
    outputs = {tag: torch.empty(100 * tag) for tag in (3, 1, 2)}
    receives = [dist.irecv(outputs[tag], left, tag=tag) for tag in outputs]
    sends = [dist.isend(torch.full((100 * tag,), 10. * rank + tag), right, tag=tag) for tag in (1, 2, 3)]
    for work in receives + sends:
        work.wait()
    for tag, output in outputs.items():
        expect(output, torch.full((100 * tag,), 10. * left + tag), f"tag {tag}")
    # All send before they receive, more than any buffer holds.
    work = dist.isend(torch.full((3_000_000,), rank), right)
    output = torch.empty(3_000_000, dtype=torch.int64)
    dist.recv(output, left)
    work.wait()
    expect(output, torch.full((3_000_000,), left), "large")
    if rank == 0:
        seen = set()
        for _ in range(1, size):
            output = torch.empty(1)
            source = dist.recv(output)
            expect(output, torch.tensor([1. * source]), "any source")
            seen.add(source)
        assert seen == set(range(1, size)), seen
    else:
        dist.send(torch.tensor([1. * rank]), 0)


def groups(rank, size):
    ends = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=ends)
        expect(tensor, torch.full((3,), 2.), "subgroup")
        dist.broadcast(tensor.fill_(rank), size - 1, group=ends)
        expect(tensor, torch.full((3,), size - 1.), "subgroup's root")
    dist.barrier()


def refused(rank, size):
    for what, call in {
        "PREMUL_SUM": lambda: dist.all_reduce(torch.ones(2), dist._make_nccl_premul_sum(2.)),
        "not carried": lambda: dist.all_reduce(torch.quantize_per_tensor(torch.ones(2), 1., 0, torch.qint8)),
        f"{size - 1} tensors for {size} ranks": lambda: dist.all_gather([torch.ones(2)] * (size - 1), torch.ones(2)),
        "bit_or": lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BOR),
    }.items():
        with unittest.TestCase().assertRaisesRegex(RuntimeError, what):
            call()
    dist.barrier()  # what is refused harms nobody


FUNCTIONS = {
    f.__name__: f for f in (
        reductions, copies, exchanges, lists, strided, sparse, asynchronous, messages, groups, refused)}


def everything(rank, size, *_):
    for function in FUNCTIONS.values():
        function(rank, size)


class Collectives(unittest.TestCase):
    def test_two_ranks(self):
        ranks.run(2, __file__, "everything")

    def test_three_ranks(self):
        ranks.run(3, __file__, "everything")

    def test_two_ranks_whose_tensors_are_shared(self):
        ranks.run(2, __file__, "everything", "shared")


if __name__ == "__main__":
    if ranks.is_rank():
        if "shared" in sys.argv:
            assert argosy_torch.share_tensor_memory()
        ranks.run_as_rank({"everything": everything})
    else:
        unittest.main()
