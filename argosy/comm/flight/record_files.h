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

// All records in the folders, by rank. A folder of a run of `argosy run` stands
// for that of its last attempt with records; files of other jobs than that of
// the newest are left out. Throws InvalidArgument for folders that
// cannot be read, files that are no records, and two records of one rank.
std::vector<Record> read_records(
    const std::vector<std::filesystem::path>& folders);

// Requests records and waits until those of all ranks are newer than the
// request, or the deadline has come.
void renew_records(
    const std::vector<std::filesystem::path>& folders, Deadline deadline);

} // namespace argosy::comm::flight
