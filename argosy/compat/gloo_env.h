#pragma once

#include <string>

namespace argosy {

// A side channel over TCP, beside whatever groups there are: for barriers of
// programs that have no world, or one that is busy. It belongs to the calling
// thread.

// Meets `rank_num` ranks at `server_endpoint` ("host:port"), which rank 0
// serves. Throws TimeoutError when they do not all come (ARGOSY_TIMEOUT).
void gloo_init_parallel_env(
    int rank_id, int rank_num, const std::string& server_endpoint);

// Returns when all ranks of the side channel have called it.
void gloo_barrier();

// Lets go of it; it may be made again.
void gloo_release();

} // namespace argosy
