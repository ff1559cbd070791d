#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "argosy/data/slots/bad_lines.h"
#include "argosy/data/slots/records.h"
#include "argosy/data/slots/sample_format.h"

namespace argosy::data {

// How the files of a slot dataset are read.
struct SlotFileOptions {
  int num_threads = 1;
  // A shell command that gets each file on its standard input and writes what
  // the format says; "cat" or nothing: the files have that already.
  std::string pipe_command = "cat";
  // How long a file or the command may give nothing.
  std::chrono::milliseconds read_limit = std::chrono::seconds(60);
};

// What is read, and how. References must outlive the reading.
struct SlotReading {
  const std::vector<std::string>& files; // URLs of argosy/fs
  const SampleFormat& format;
  const SlotFileOptions& options;
  BadLines& bad_lines;
  const std::atomic<bool>& stop; // once true, reading ends soon
};

// Takes samples of one file; called by several threads, for a file by one.
// Returns false to stop reading all files.
using TakeRecords = std::function<bool(std::size_t file, Records&& records)>;

// Reads the files on several threads, each file by one, and hands the samples
// over in parts of about `part_bytes`, and at the end of each file. Throws what
// the first failing file threw, after all threads have ended.
void read_slot_files(
    const SlotReading& reading,
    std::size_t part_bytes,
    const TakeRecords& take);

// All samples, in the order of the files whatever the number of threads.
Records load_slot_files(const SlotReading& reading);

} // namespace argosy::data
