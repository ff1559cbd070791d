#pragma once

#include <functional>
#include <vector>

namespace argosy::launch {

// Runs `launcher` in a child process in such a way that nothing it starts
// outlives the pair, whichever of the two is killed:
// - the child dies: this process inherits its orphans, and kills them;
// - this process dies: `alive_fd`, which the child gets, becomes readable, and
//   the child has to end (it is a subreaper too).
//
// `signals` that reach this process are sent on to the child. Returns the
// child's exit code, 128 + signal when one killed it. Call it before any thread
// is started.
int run_guarded(
    const std::vector<int>& signals,
    const std::function<int(int alive_fd)>& launcher);

} // namespace argosy::launch
