#pragma once

#include <string>
#include <vector>

#include "argosy/ps/client/communicator.h"

// What a strategy says of parameter servers. No torch header.
namespace argosy::fleet {

struct DistributedStrategy;

// a_sync and a_sync_configs: sync; async; geo if k_steps is above 0; half-async
// if half_async is set.
ps::CommunicatorOptions communicator_of(const DistributedStrategy& strategy);

// The settings that training with servers does not have: if the servers hold
// all parameters or, with `hybrid`, if workers keep some.
std::vector<std::string> settings_without_servers(
    const DistributedStrategy& strategy, bool hybrid);

} // namespace argosy::fleet
