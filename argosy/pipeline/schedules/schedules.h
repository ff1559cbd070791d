#pragma once

#include <string>
#include <vector>

#include "argosy/pipeline/schedule.h"

// The known schedules (docs/pipeline-schedules.md). All take any number of
// stages and microbatches from 1 on, and run the backwards of each part in the
// order of the microbatches, so that its gradients are summed as one process
// sums them. They throw InvalidArgument for numbers below 1.
namespace argosy::pipeline {

// All forwards, then all backwards ("FThenB"): keeps all microbatches.
Schedule gpipe(int stages, int microbatches, int chunks = 1);

// 1F1B: a backward as soon as there is one, so that stage s of p keeps no more
// than p - s microbatches.
Schedule one_forward_one_backward(int stages, int microbatches);

// 1F1B that runs ahead, by 2(p - s) - 1 forwards before the first backward:
// messages have the time of a step to arrive in.
Schedule eager(int stages, int microbatches);

// 1F1B over several chunks of each stage, for a shorter start. Microbatches
// pass a chunk in groups of p; the first group takes the rest of m / p too.
// With one chunk it is 1F1B.
Schedule interleaved(int stages, int microbatches, int chunks);

// 1F1B whose backwards of weights fill the wait at the end. It keeps no more
// microbatches than 1F1B.
Schedule zero_bubble_h1(int stages, int microbatches);

// Two chunks of each stage in a V. Stages never wait between their first and
// last step when all passes take the same time and m is 2p - 1 or more.
Schedule zero_bubble_v(int stages, int microbatches);

// By name, upper or lower case: gpipe (FThenB), 1f1b, eager, interleaved (vpp),
// zbh1, zbv (zbvpp). `chunks` is for those that take any; zbv has two whatever
// it says. Throws InvalidArgument, which lists the names.
Schedule make_schedule(
    const std::string& name, int stages, int microbatches, int chunks = 1);

// Those of make_schedule(), without the other spellings.
std::vector<std::string> schedule_names();

} // namespace argosy::pipeline
