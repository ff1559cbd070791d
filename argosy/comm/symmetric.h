#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <memory>

namespace at {
class Tensor;
}

namespace argosy {
class Group;
}

namespace argosy::comm {

// A tensor in symmetric memory, with any values: all_reduce, reduce,
// reduce_scatter, all_gather, all_to_all and broadcast of the group read and
// write it, and views of it, in place across processes, where every rank's
// tensor is of this kind. Elsewhere it is a tensor like any other.
//
// A collective: all members call it with the same number of bytes, and it
// waits for them. The memory lives for as long as the tensor, which may outlive
// the group. `group` null is the group of all ranks. Throws InvalidArgument
// when the ranks of the group share no memory, SystemError on all ranks when
// one has not enough.
at::Tensor symmetric_empty(
    c10::IntArrayRef sizes,
    c10::ScalarType dtype,
    const std::shared_ptr<Group>& group = nullptr);

} // namespace argosy::comm
