#pragma once

#include <filesystem>
#include <vector>

#include "argosy/comm/flight/record.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::flight {

// Ranks that watch a folder write their records when this file in it changes.
inline constexpr const char* kRequestName = "flight_request";

// Makes the watching ranks of this host write their records. Throws
// SystemError.
void request_records(const std::filesystem::path& folder);

// Reads all records in the folders, in rank order. For the folder of a run of
// `argosy run`, reads that of its last attempt with records. Ignores files of
// other jobs than the newest one's. Throws InvalidArgument for folders that
// cannot be read, files that are not records, and two records of one rank.
std::vector<Record> read_records(
    const std::vector<std::filesystem::path>& folders);

// Requests records and waits until so many ranks (0: all of the world) have
// written since, or until the deadline.
void renew_records(
    const std::vector<std::filesystem::path>& folders,
    Deadline deadline,
    int num_ranks = 0);

} // namespace argosy::comm::flight
