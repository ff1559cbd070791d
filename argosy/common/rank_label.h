#pragma once

#include <string>

namespace argosy {

// Who the calling thread is, as "rank/size", for log lines and error messages.
// Empty when the thread belongs to no world. Bound per thread, as worlds are.
std::string rank_label();

// Labels the calling thread; size 0 takes the label away.
void set_rank_label(int rank, int size);

} // namespace argosy
