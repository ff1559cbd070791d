#pragma once

#include <string>
#include <vector>

#include "argosy/pipeline/schedule.h"

// The known schedules (docs/pipeline-schedules.md). All accept any number >= 1
// of stages and microbatches, and throw InvalidArgument for smaller ones.
// Backwards of each part run in microbatch order, so gradients are summed as in
// one process.
namespace argosy::pipeline {

// All forwards, then all backwards ("FThenB"); keeps all microbatches.
Schedule gpipe(int stages, int microbatches, int chunks = 1);

// 1F1B: runs each backward as early as possible; stage s of p keeps at most p -
// s microbatches.
Schedule one_forward_one_backward(int stages, int microbatches);

// 1F1B with 2(p - s) - 1 forwards before the first backward, which gives each
// message the time of a step to arrive.
Schedule eager(int stages, int microbatches);

// 1F1B over several chunks per stage, which shortens the warm-up. Microbatches
// pass a chunk in groups of p; the first group also takes the remainder of m /
// p. With one chunk it equals 1F1B.
Schedule interleaved(int stages, int microbatches, int chunks);

// 1F1B that fills the wait at the end with backwards of weights. Keeps no more
// microbatches than 1F1B.
Schedule zero_bubble_h1(int stages, int microbatches);

// Two chunks per stage in a V. If all passes take the same time and m >= 2p -
// 1, no stage waits between its first and last step.
Schedule zero_bubble_v(int stages, int microbatches);

// Makes a schedule by name: gpipe (F-then-B), 1f1b, eager (eager1f1b),
// interleaved (VPP), zbh1, zbv (ZBVPP). Case, hyphens, underscores and spaces
// do not count, so "FThenB" and "ZB-H1" are names, too. zbv has two chunks
// whatever `chunks` says. Throws InvalidArgument, listing the names, for an
// unknown one.
Schedule make_schedule(
    const std::string& name, int stages, int microbatches, int chunks = 1);

// The names of make_schedule(), without aliases.
std::vector<std::string> schedule_names();

} // namespace argosy::pipeline
