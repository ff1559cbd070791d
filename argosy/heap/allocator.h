#pragma once

namespace argosy {

// Both functions affect the whole process, permanently (the hooks `allocator`
// and `malloc` of docs/torch-hooks.md). Existing tensors are not touched. They
// do nothing if the program has set an allocator of its own, or if the hook is
// switched off. Thread-safe.

// Keeps the memory of freed CPU tensors, except small ones, and reuses it.
// Otherwise every training step allocates its large tensors from fresh pages,
// each of which costs a page fault.
//
// DataParallel calls it (DataParallelOptions::keep_memory). Call it before
// making the module to put the parameters on huge pages as well.
void keep_tensor_memory();

// The same, in memory that the other ranks of this host can map, so that their
// collectives read and write tensors in place. Returns whether this is the
// case.
//
// init_parallel_env() calls it if several processes of a job share a host,
// unless ARGOSY_SHARED_HEAP=0. After fork(), the child shares inherited tensors
// with its parent (as after share_memory_() in PyTorch) and allocates new ones
// in private memory.
bool share_tensor_memory();

} // namespace argosy
