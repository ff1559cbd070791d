#pragma once

namespace argosy {

// Both are of the whole process and for good; tensors that exist are not
// touched, and neither does anything where the program has set an allocator of
// its own. Thread-safe.

// From now on, the memory of CPU tensors that are not small is kept when they
// die, and given to the next. Without, a step of training makes its large
// tensors of fresh pages every time, each of which costs a fault.
//
// DataParallel calls it (DataParallelOptions::keep_memory); call it before the
// module is made to have huge pages for the parameters, too.
void keep_tensor_memory();

// The same, in memory that the other ranks of this host can map: their
// collectives then read and write the tensors in place. Returns whether it is
// so.
//
// init_parallel_env() calls it where several processes of a job share a host,
// unless ARGOSY_SHARED_HEAP=0. After fork(), the child shares the tensors it
// inherits with its parent (as after share_memory_() in PyTorch), and makes its
// own in private memory.
bool share_tensor_memory();

} // namespace argosy
