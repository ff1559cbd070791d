#pragma once

#include <string>

namespace argosy {

// Returns the calling thread's rank as "rank/size", for log lines and messages;
// empty if the thread belongs to no world.
std::string rank_label();

// Returns the text of an Error without the labels that this thread's rank has
// added, for another Error that quotes it.
std::string without_rank_label(std::string text);

// Sets the calling thread's label; size 0 removes it.
void set_rank_label(int rank, int size);

} // namespace argosy
