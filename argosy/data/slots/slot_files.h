#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "argosy/data/slots/bad_lines.h"
#include "argosy/data/slots/multi_slot.h"
#include "argosy/data/slots/records.h"

namespace argosy::data {

// How the files of a slot dataset are read.
struct SlotFileOptions {
  int num_threads = 1;
  // A shell command that gets each file on its standard input and writes
  // MultiSlot lines; "cat" or nothing: the files have such lines.
  std::string pipe_command = "cat";
  // How long a file or the command may give nothing.
  std::chrono::milliseconds read_limit = std::chrono::seconds(60);
};

// Takes samples of one file; called by several threads, for a file by one.
// Returns false to stop reading all files.
using TakeRecords = std::function<bool(std::size_t file, Records&& records)>;

// Reads the files (URLs of argosy/fs) on several threads, each file by one, and
// hands the samples over in parts of about `part_bytes`, and at the end of each
// file. Throws what the first failing file threw, after all threads have ended.
// `stop`, once true, ends the threads soon.
void read_slot_files(
    const std::vector<std::string>& files,
    const MultiSlotParser& parser,
    const SlotFileOptions& options,
    BadLines& bad_lines,
    std::size_t part_bytes,
    const TakeRecords& take,
    const std::atomic<bool>& stop);

// All samples, in the order of the files whatever the number of threads.
Records load_slot_files(
    const std::vector<std::string>& files,
    const MultiSlotParser& parser,
    const SlotFileOptions& options,
    BadLines& bad_lines,
    const std::atomic<bool>& stop);

} // namespace argosy::data
