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

// An uninitialised tensor in symmetric memory. If the tensors of all ranks are
// of this kind, all_reduce, reduce, reduce_scatter, all_gather, all_to_all and
// broadcast of the group read and write them, and views of them, in place
// across processes. Otherwise it is a tensor like any other.
//
// All members must call it with the same number of bytes; it blocks until they
// do. The memory lives as long as the tensor, which may outlive the group. A
// null `group` is the group of all ranks. Throws InvalidArgument if the ranks
// of the group share no memory, and SystemError, on all ranks, if one has not
// enough.
at::Tensor symmetric_empty(
    c10::IntArrayRef sizes,
    c10::ScalarType dtype,
    const std::shared_ptr<Group>& group = nullptr);

} // namespace argosy::comm
