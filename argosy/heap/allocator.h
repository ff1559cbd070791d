#pragma once

namespace argosy {

// From now on, tensors of this process that are made on the CPU, and are not
// small, lie in memory that the other ranks of this host can map: their
// collectives then read and write them in place. Memory that was freed keeps
// its pages for the next tensor, which is worth more than it sounds: without
// it, every step of training faults all its pages in again.
//
// init_parallel_env() calls it where several processes of a job share a host,
// unless ARGOSY_SHARED_HEAP=0. After fork(), the child shares the tensors it
// inherits with its parent (as after share_memory_() in PyTorch), and makes its
// own in private memory. Returns whether it is so; thread-safe.
bool share_tensor_memory();

} // namespace argosy
