#pragma once

namespace argosy {

// Both change the whole process for good (the hooks `allocator` and `malloc` of
// docs/torch-hooks.md). Tensors that exist stay where they are. Neither does
// anything where the program has set an allocator of its own, or where the hook
// is switched off. Thread-safe.

// Keeps the memory of CPU tensors of 32 KB and more when they die, and gives it
// to the next. Otherwise each training step makes its large tensors of fresh
// pages, and each page costs a fault.
//
// DataParallel calls it (DataParallelOptions::keep_memory). Call it before the
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
