#pragma once

#include <string>

#include "argosy/common/deadline.h"
#include "argosy/online/schedule.h"

namespace argosy::online {

// What servers saved for serving, in modes delta and base, with the tables'
// specs (ps::write_table_specs) in the same folder.
struct ExportJob {
  std::string saved;   // folder of the save
  std::string exports; // folder that serving::Reader follows
  PlannedExport planned{};
  std::string label{}; // for people
};

// The file of weights that are no tables, in the folder of a save; exports have
// it as a blob of this name.
inline constexpr const char* kDenseWeights = "model.pt";

// Writes the export, with the rows that a pull of a worker gives, unless it is
// there. A delta names the export before it, which must be there. Memory holds
// a shard's rows. Throws CheckpointError, FsError, TimeoutError.
void write_export(const ExportJob& job, Deadline deadline);

} // namespace argosy::online
