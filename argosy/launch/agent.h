#pragma once

#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/launch/hang_notice.h"
#include "argosy/launch/membership.h"
#include "argosy/launch/options.h"
#include "argosy/launch/signals.h"

namespace argosy::launch {

class Consoles;

// Runs attempts of the job on this node until one succeeds, no restart is left,
// or a signal ends the job. Blocks. Returns the exit code: 0, that of the root
// cause, or 128 + signal. `argv` comes from program_argv().
int run_agent(
    const RunOptions& options,
    const std::vector<std::string>& argv,
    const Environment& inherited,
    Membership& membership,
    SignalSource& signals,
    int alive_fd,
    Consoles& consoles,
    const HangReader& hang_reader);

} // namespace argosy::launch
