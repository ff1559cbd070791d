"""PyTorch's samples of its own ops (OpInfo), on DTensors and on plain tensors."""
import collections
import itertools

import torch

from argosy_torch import dtensor as dt

# At most so many samples of an op, spread over the first so many it has.
MOST_SAMPLES = 4
LOOK_AT = 40

# A tensor and the gradients of what it came from.
Result = collections.namedtuple("Result", "values gradients")


def load():
    """All ops by name. Some are listed twice, with different types."""
    import torch.testing._internal.common_methods_invocations as invocations
    # It would start torch's random numbers anew, which DTensors do not draw.
    invocations.wrapper_set_seed = lambda op, *arguments, **keywords: op(*arguments, **keywords)
    ops = {}
    for op in invocations.op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        ops[name + "'" if name in ops else name] = op
    return ops


def dtype_of(op):
    for dtype in (torch.float32, torch.int64):
        if dtype in op.dtypes:
            return dtype
    return sorted(op.dtypes, key=str)[0]


def samples_of(op):
    dtype = dtype_of(op)
    torch.manual_seed(0)
    requires_grad = op.supports_autograd and dtype.is_floating_point
    some = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), LOOK_AT))
    step = max(1, len(some) // MOST_SAMPLES)
    return some[::step][:MOST_SAMPLES]


def map_tensors(function, value):
    if isinstance(value, torch.Tensor):
        return function(value)
    if type(value) in (tuple, list):
        return type(value)(map_tensors(function, each) for each in value)
    if type(value) is dict:
        return {key: map_tensors(function, each) for key, each in value.items()}
    return value


def leaves(value):
    """All that is in tuples and lists."""
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


def tensors_in(sample):
    found = []
    map_tensors(found.append, [sample.input, list(sample.args), sample.kwargs])
    return found


def layouts(tensors):
    """A few ways to place them: a placement for each."""
    ways = []
    cycle = [dt.Shard(-1), dt.Partial(), dt.Replicate(), dt.Shard(0)]
    for choice in ([dt.Replicate()], [dt.Shard(0)], [dt.Shard(-1)], cycle):
        way = []
        for index, tensor in enumerate(tensors):
            placement = choice[index % len(choice)]
            if isinstance(placement, dt.Shard) and tensor.dim() == 0:
                placement = dt.Replicate()
            way.append(dt.Shard(tensor.dim() - 1) if placement == dt.Shard(-1) else placement)
        if way not in ways:
            ways.append(way)
    return ways


def compute(op, sample, place):
    """The op on inputs that `place` makes of the sample's, and gradients of a
    weighted sum of what it returns."""
    inputs = []

    def placed(tensor):
        inputs.append(place(tensor.detach()).requires_grad_(tensor.requires_grad))
        return inputs[-1]
    first, arguments, keywords = map_tensors(placed, [sample.input, list(sample.args), sample.kwargs])
    output = op.op(first, *arguments, **keywords)
    values = leaves(output)
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    processed = leaves(sample.output_process_fn_grad(output)) if wanted else []
    losses = [loss_of(value) for value in processed
              if isinstance(value, torch.Tensor) and value.requires_grad]
    gradients = torch.autograd.grad(sum(losses), wanted, allow_unused=True) if losses else []
    return Result(values, list(gradients))


def loss_of(value):
    weights = (torch.arange(value.numel()) * 7 % 11 - 5).to(value.dtype).reshape(value.shape)
    total = (value * weights).sum()
    return total.abs() if total.is_complex() else total


def plain(op, sample):
    return compute(op, sample, lambda tensor: tensor.clone())


def sharded(op, sample, mesh, way):
    """The same on DTensors, gathered."""
    placements = iter(way)
    dt.manual_seed(0)
    result = compute(op, sample, lambda tensor: dt.shard_tensor(tensor, mesh, [next(placements)]))
    return Result(*([whole(each) for each in part] for part in result))


def whole(value):
    return dt.full_tensor(value.detach()) if dt.is_dtensor(value) else value


def difference(got, expected, has_values=True):
    """What is different, in words, or None."""
    for kind, ours, theirs in zip(Result._fields, got, expected):
        if len(ours) != len(theirs):
            return f"{len(ours)} {kind}, expected {len(theirs)}"
        for one, other in zip(ours, theirs):
            if not same(one, other, has_values):
                return f"{kind}: {brief(one)}, expected {brief(other)}"
    return None


def same(one, other, has_values):
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and (not has_values or one == other or one != one)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not has_values:
        return True
    one, other = one.detach(), other.detach()
    if one.layout != torch.strided or other.layout != torch.strided:
        return one.layout == other.layout and same(one.to_dense(), other.to_dense(), True)
    return torch.allclose(one, other, rtol=1e-4, atol=1e-4, equal_nan=True)


def brief(value):
    if not isinstance(value, torch.Tensor):
        return repr(value)
    text = f"{value.dtype} {list(value.shape)}"
    if 0 < value.numel() <= 8 and value.layout == torch.strided:
        text += f" {value.detach().flatten().tolist()}"
    return text


def is_random(op, sample):
    return difference(plain(op, sample), plain(op, sample)) is not None
