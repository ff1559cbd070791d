"""PyTorch's samples of its own ops (OpInfo), on DTensors and on plain tensors."""
import collections
import copy
import itertools
import os
import threading

import torch

from argosy_torch import dtensor as dt

# Ranks compare no plain tensors here: each case has other shapes, so that all would be compared.
os.environ.setdefault("ARGOSY_CHECK_VALUES", "0")

# At most so many samples of an op, spread over the first so many it has.
MOST_SAMPLES = 12
LOOK_AT = 120
# Of these, so many on more than one mesh axis.
MOST_ON_TWO_AXES = 4

# Memory that nobody has written yet.
WITHOUT_VALUES = {"empty_like", "new_empty", "new_empty_strided"}

# What an op returns, and the gradients of what it was given.
Result = collections.namedtuple("Result", "values gradients")


def load():
    """All ops by name. Some are listed twice, with different types."""
    import torch.testing._internal.common_methods_invocations as invocations
    # It would start torch's random numbers anew, which DTensors do not draw.
    invocations.wrapper_set_seed = lambda op, *arguments, **keywords: op(*arguments, **keywords)
    for name in ("rand", "randn"):
        setattr(torch, name, with_numbers_of_thread(getattr(torch, name)))
    ops = {}
    for op in invocations.op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        ops[name + "'" if name in ops else name] = op
    return ops


_thread = threading.local()


def with_numbers_of_thread(function):
    """Some ops draw a plain tensor for themselves, which must be the same on all
    ranks; but threads share torch's numbers."""
    def draw(*arguments, **keywords):
        return function(*arguments, generator=getattr(_thread, "generator", None), **keywords)
    return draw


def dtype_of(op):
    """None for what needs another device."""
    for dtype in (torch.float32, torch.int64, *sorted(op.dtypes, key=str)):
        if dtype in op.dtypes:
            return dtype
    return None


def samples_of(op):
    dtype = dtype_of(op)
    if dtype is None:
        return []
    torch.manual_seed(0)
    requires_grad = op.supports_autograd and dtype.is_floating_point
    some = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), LOOK_AT))
    step = max(1, len(some) // MOST_SAMPLES)
    return some[::step][:MOST_SAMPLES]


class Case:
    """An op on one sample. `why_not` says why it cannot be run at all."""

    def __init__(self, op, sample, in_place=False):
        self.op = op
        self.sample = sample
        self.in_place = in_place
        self.tensors = tensors_in(sample)
        self.has_values = op.name not in WITHOUT_VALUES
        self.with_gradients = not in_place
        self.why_not = None
        self.expected = self._try_plain()
        self.is_random = self.why_not is None and self.has_values and (
            difference(self.plain(), self.expected) is not None)

    def in_double(self):
        """The same with more digits, or None."""
        def double(tensor):
            wide = tensor.double() if tensor.dtype == torch.float32 else tensor
            return wide.detach().requires_grad_(tensor.requires_grad)
        if all(tensor.dtype != torch.float32 for tensor in self.tensors):
            return None
        first, arguments, keywords = map_tensors(
            double, [self.sample.input, list(self.sample.args), self.sample.kwargs])
        sample = copy.copy(self.sample)
        sample.input, sample.args, sample.kwargs = first, tuple(arguments), keywords
        case = Case(self.op, sample, self.in_place)
        return case if case.why_not is None and not case.is_random else None

    def plain(self):
        return self._compute(lambda tensor: tensor.clone())

    def sharded(self, mesh, layout):
        """The same on DTensors, gathered."""
        placements = iter(layout)
        dt.manual_seed(0)
        result = self._compute(lambda tensor: dt.shard_tensor(tensor, mesh, next(placements)))
        return Result(*([whole(each) for each in part] for part in result))

    def _try_plain(self):
        try:
            return self.plain()
        except Exception:
            self.with_gradients = False
        try:
            return self.plain()
        except Exception as error:
            self.why_not = "not on plain CPU tensors: " + str(error).splitlines()[0]
            return None

    def _compute(self, place):
        """The op on inputs that `place` makes of the sample's, and gradients of
        a weighted sum of what it returns."""
        _thread.generator = torch.Generator().manual_seed(0)
        inputs = []

        def placed(tensor):
            inputs.append(place(tensor.detach()).requires_grad_(tensor.requires_grad and self.with_gradients))
            return inputs[-1]
        first, arguments, keywords = map_tensors(
            placed, [self.sample.input, list(self.sample.args), self.sample.kwargs])
        function = self.op.inplace_variant if self.in_place else self.op.op
        output = function(first, *arguments, **keywords)
        return Result([first] if self.in_place else leaves(output), self._gradients(output, inputs))

    def _gradients(self, output, inputs):
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        if not wanted:
            return []
        losses = [loss_of(value) for value in leaves(self.sample.output_process_fn_grad(output))
                  if isinstance(value, torch.Tensor) and value.requires_grad]
        return list(torch.autograd.grad(sum(losses), wanted, allow_unused=True)) if losses else []


def cases_of(op):
    """Of all samples with tensors, and of the first that goes in place."""
    samples = [sample for sample in samples_of(op) if tensors_in(sample)]
    for sample in samples:
        yield Case(op, sample)
    for sample in samples:
        if op.inplace_variant is not None and not sample.broadcasts_input:
            case = Case(op, sample, in_place=True)
            if case.why_not is None:
                yield case
                return


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


EVERYWHERE = [dt.Replicate()]
FIRST = [dt.Shard(0)]
LAST = [dt.Shard(-1)]
MIXED = [dt.Shard(-1), dt.Partial(), dt.Replicate(), dt.Shard(0)]  # in turn

# What each mesh axis does with the tensors; for meshes of one axis, and of two.
WAYS = {
    1: [[EVERYWHERE], [FIRST], [LAST], [MIXED]],
    2: [[FIRST, FIRST], [LAST, FIRST], [FIRST, MIXED], [MIXED, LAST]],
}


def fitting(placement, tensor):
    if not isinstance(placement, dt.Shard):
        return placement
    return dt.Shard(placement.dim % tensor.dim()) if tensor.dim() else dt.Replicate()


def layouts(tensors, num_axes):
    """A few ways to place them: placements for each."""
    layouts = []
    for way in WAYS[num_axes]:
        layout = [
            [fitting(axis[index % len(axis)], tensor) for axis in way]
            for index, tensor in enumerate(tensors)]
        if layout not in layouts:
            layouts.append(layout)
    return layouts


def loss_of(value):
    weights = (torch.arange(value.numel()) * 7 % 11 - 5).to(value.dtype).reshape(value.shape)
    total = (value * weights).sum()
    return total.abs() if total.is_complex() else total


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
