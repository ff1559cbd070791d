#pragma once

#include "argosy/parallel/memory/block_cache.h"

namespace argosy {

// From now on large tensors on the CPU get memory that is kept when they die,
// and given to the next; without, a step's large tensors are made of fresh
// pages of the system every time. Of the whole process, and for good. Tensors
// that exist are not touched, nor is an allocator that the program set itself.
//
// DataParallel does it (DataParallelOptions::keep_memory); call it before the
// module is made to have huge pages for the parameters, too.
void keep_memory();

// What is kept, in bytes; nothing before keep_memory().
parallel::BlockCache::Stats kept_memory();

} // namespace argosy
