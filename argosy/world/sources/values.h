#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/common/net.h"
#include "argosy/world/launch_info.h"

// Helpers of the sources: read variables with errors that name them, and fill
// in a LaunchInfo.
namespace argosy::world {

constexpr int kDefaultPort = 29500; // torchrun's default

// Returns "A=1 B=2" for the variables that are set.
std::string shown(
    const Environment& env, const std::vector<std::string>& names);

// Returns the value as an integer in [lowest, highest]; nullopt if unset.
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

// Reads a port, for example MASTER_PORT.
std::optional<int> find_port(const Environment& env, std::string_view name);

// Derives a port in [15000, 32000) from a number that all ranks of a job know,
// so that two jobs on a host rarely collide.
std::uint16_t job_port(long long seed);

// Parses a required variable "a:1,b:2".
std::vector<Endpoint> endpoints(const Environment& env, std::string_view name);

// Returns POD_IP:PADDLE_PORT, both of which must be set.
Endpoint pod_endpoint(const Environment& env);

// Returns the index of `endpoint` in the list; throws an error that shows both.
int index_of(
    const Endpoint& endpoint,
    std::string_view what,
    const std::vector<Endpoint>& list,
    std::string_view list_name);

// Sets rank, size and num_workers, and checks the rank against the size.
void set_rank(
    LaunchInfo& info,
    const Environment& env,
    std::string_view rank_name,
    std::string_view size_name);

// Sets rank and size on this host; if either is unset, sets knows_local to
// false. Derives the node rank, assuming equal hosts filled in blocks or round
// robin.
void set_local(
    LaunchInfo& info,
    const Environment& env,
    std::string_view rank_name,
    std::string_view size_name);

// The same from a list of every rank's host; `hosts[info.rank]` is ours.
void set_local_from(LaunchInfo& info, const std::vector<std::string>& hosts);

void set_local_from(LaunchInfo& info, const std::vector<Endpoint>& ranks);

// Marks the local numbers as unknown.
void set_local_unknown(LaunchInfo& info);

// Sets the store: ARGOSY_STORE, else MASTER_ADDR and MASTER_PORT, else
// `natural`, with its port replaced by MASTER_PORT. Leaves store_url empty if
// there is none, and for a single worker. Rank 0 serves.
void set_store(
    LaunchInfo& info,
    const Environment& env,
    const std::optional<Endpoint>& natural = std::nullopt);

// Throws unless the ranks can meet; `wanted` names the variables to set.
void check_store(const LaunchInfo& info, std::string_view wanted);

} // namespace argosy::world
