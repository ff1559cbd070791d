#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/common/net.h"
#include "argosy/world/launch_info.h"

// What the sources share: reading variables with errors that name them, and
// filling in a LaunchInfo.
namespace argosy::world {

constexpr int kDefaultPort = 29500; // what torchrun takes too

// "A=1 B=2", of those that are set.
std::string shown(
    const Environment& env, const std::vector<std::string>& names);

// The value as an integer in [lowest, highest]; nothing when unset.
std::optional<int> find_int(
    const Environment& env,
    std::string_view name,
    int lowest,
    int highest = 2147483647);

// The same for variables that must be set.
std::string required(const Environment& env, std::string_view name);
int required_int(
    const Environment& env,
    std::string_view name,
    int lowest,
    int highest = 2147483647);

// A port, which is what MASTER_PORT and others must be.
std::optional<int> find_port(const Environment& env, std::string_view name);

// A port in [15000, 32000) that follows from what all ranks of a job know, so
// that two jobs on a host seldom share it.
std::uint16_t job_port(long long seed);

// "a:1,b:2" of a variable that must be set.
std::vector<Endpoint> endpoints(const Environment& env, std::string_view name);

// POD_IP:PADDLE_PORT, both of which must be set.
Endpoint pod_endpoint(const Environment& env);

// Where `endpoint` stands in the list, or an error that shows both.
int index_of(
    const Endpoint& endpoint,
    std::string_view what,
    const std::vector<Endpoint>& list,
    std::string_view list_name);

// Rank and size, checked against each other. Sets num_workers too.
void set_rank(
    LaunchInfo& info,
    const Environment& env,
    std::string_view rank_name,
    std::string_view size_name);

// Rank and size on this host. When either is unset, knows_local becomes false.
// The node's place follows from even hosts filled in blocks or in turn.
void set_local(
    LaunchInfo& info,
    const Environment& env,
    std::string_view rank_name,
    std::string_view size_name);

// The same from a list with every rank's host; `hosts[info.rank]` is ours.
void set_local_from(LaunchInfo& info, const std::vector<std::string>& hosts);

// Says that nothing is known about who shares this host.
void set_local_unknown(LaunchInfo& info);

// Where the ranks meet: ARGOSY_STORE, else MASTER_ADDR with MASTER_PORT, else
// `natural`, whose port MASTER_PORT replaces. Leaves store_url empty when there
// is none of them, and for a worker that is alone. Rank 0 serves.
void set_store(
    LaunchInfo& info,
    const Environment& env,
    const std::optional<Endpoint>& natural = std::nullopt);

// Throws unless the ranks have a way to meet; `wanted` names the variables that
// would give one.
void check_store(const LaunchInfo& info, std::string_view wanted);

} // namespace argosy::world
