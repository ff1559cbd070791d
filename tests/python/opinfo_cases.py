"""PyTorch's samples of its own ops (OpInfo), on DTensors and on plain tensors."""
import collections
import itertools
import threading

import torch

from argosy_torch import dtensor as dt

# At most so many samples of an op, spread over the first so many it has.
MOST_SAMPLES = 4
LOOK_AT = 40

# Memory that nobody has written yet.
WITHOUT_VALUES = {"empty_like", "new_empty", "new_empty_strided"}

# What an op returns, and the gradients of what it was given.
Result = collections.namedtuple("Result", "values gradients")


def load():
    """All ops by name. Some are listed twice, with different types."""
    import torch.testing._internal.common_methods_invocations as invocations
    # It would start torch's random numbers anew, which DTensors do not draw.
    invocations.wrapper_set_seed = lambda op, *arguments, **keywords: op(*arguments, **keywords)
    torch.rand = rand_of_thread
    ops = {}
    for op in invocations.op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        ops[name + "'" if name in ops else name] = op
    return ops


_torch_rand = torch.rand
_thread = threading.local()


def rand_of_thread(*arguments, **keywords):
    """Some functions draw a plain tensor for themselves, which must be the same
    on all ranks; but threads share torch's numbers."""
    generator = getattr(_thread, "generator", None)
    return _torch_rand(*arguments, generator=generator, **keywords)


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
