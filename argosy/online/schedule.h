#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Training on data that comes by days and passes: which files a pass has, and
// what is saved behind it. Pure.
namespace argosy::online {

// A day has `passes_per_day` passes. What is saved has the names of the
// reference:
//
//   20261118/3            all rows behind pass 3
//   20261118/delta-3      rows for serving that changed
//   20261119/0            all rows at the end of the day before
//   20261119/base         all rows for serving
struct Schedule {
  std::string first_day; // "20261118"
  int num_days = 0;      // 0: without end
  int passes_per_day = 24;
  // A pass reads so many parts of the day, each with files of its own.
  int splits_per_pass = 1;

  // URL of a split's files. {day}, {pass} (from 1), {split} (of the day, from
  // 0), {hour} and {minute} (when the split begins) are replaced, and the last
  // part of the path may have '*' and '?'.
  std::string files;
  // The same, of a file that is there when those of the split are complete.
  // Empty: they are as soon as one is there.
  std::string ready = {};
  // Above 0: `files` names a folder that grows, without days and splits. A pass
  // has as many files as this, or as are there, in the order of their names;
  // new files must come behind those that are there, and complete.
  int files_per_pass = 0;

  int checkpoint_every = 1; // passes; the end of a day always has one
  // Passes, a multiple of checkpoint_every; 0: nothing is exported for serving.
  int export_every = 0;

  bool operator==(const Schedule&) const = default;
};

// Throws InvalidArgument, naming the setting.
void check(const Schedule& schedule);

// What has been trained: `pass` passes of `day`.
struct Progress {
  std::string day;
  int pass = 0;
  std::uint64_t num_exports = 0;
  std::string last_file = {}; // of a folder that grows: all up to this name

  bool operator==(const Progress&) const = default;
};

// Rows for serving, as servers save them.
struct PlannedExport {
  std::uint64_t number = 0;
  bool is_base = false;
  std::string path; // below the output folder

  bool operator==(const PlannedExport&) const = default;
};

// One pass, and what is done behind it.
struct PassPlan {
  std::string day;
  int pass = 1;
  std::vector<std::string> files = {}; // of each split
  std::vector<std::string> ready = {};

  bool ends_day = false; // rows decay, and those that nobody needs go
  std::optional<PlannedExport> exported = {};
  std::string checkpoint = {}; // path below the output folder; empty: none

  Progress after = {};

  bool operator==(const PassPlan&) const = default;
};

Progress first_progress(const Schedule& schedule);

// nullopt: all days are done.
std::optional<PassPlan> next_pass(
    const Schedule& schedule, const Progress& progress);

// "20261231" -> "20270101". Throws InvalidArgument for what is no day.
std::string next_day(const std::string& day);

} // namespace argosy::online
