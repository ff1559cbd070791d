#pragma once

#include <cstddef>

// What the machine itself takes for what bench/rpc.cpp measures.
namespace argosy::bench {

// The median of `count` messages to another thread and back over a Unix socket.
double bare_socket_us(std::size_t size, int count);

double two_copies_us(std::size_t size, int count);

// The 99th percentile of 64 bytes to another thread, which works for 1 us, and
// back through memory, for which both threads spin. If `slow`, the other one
// also hands a task to a third thread every kSlowEvery messages, which sleeps
// kSlowCall and notes the end: the same load as that of calls, without calls.
double bare_memory_p99_us(int count, bool slow);

} // namespace argosy::bench
