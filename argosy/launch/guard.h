#pragma once

#include <functional>
#include <vector>

namespace argosy::launch {

// Runs `launcher` in a child process such that nothing it starts outlives the
// pair, whichever of the two is killed:
// - If the child dies, this process adopts its orphans and kills them.
// - If this process dies, `alive_fd` becomes readable in the child, which must
//   then end (it is a subreaper too).
//
// Forwards `signals` to the child. Blocks; returns the child's exit code, or
// 128 + signal. Call it before starting any thread.
int run_guarded(
    const std::vector<int>& signals,
    const std::function<int(int alive_fd)>& launcher);

} // namespace argosy::launch
