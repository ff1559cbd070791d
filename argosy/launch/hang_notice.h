#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "argosy/common/deadline.h"
#include "argosy/launch/folder_events.h"

namespace argosy::launch {

// Says who waits for whom, by the flight records in a folder, in operations
// that take at least so long; empty if there is none. The launcher itself knows
// nothing of operations.
using DescribeHang = std::function<std::string(
    const std::string& folder, std::chrono::milliseconds at_least)>;

// Prints to the console when workers of this node wait for each other too long.
// Never throws: a job that runs must not end because of a notice.
class HangNotice {
 public:
  struct Setup {
    std::string folder; // where workers write flight records; empty: nowhere
    std::chrono::milliseconds after{0}; // zero: never
    bool is_one_node = true;
    DescribeHang describe;
  };

  // Makes the folder if it does not exist.
  explicit HangNotice(Setup setup);

  int fd() const; // readable when a worker has something to say; -1: none

  // To be called after each wake-up: prints what a worker asked for.
  void look();
  // How long the caller may sleep until the next look().
  std::chrono::milliseconds wait_time(std::chrono::milliseconds most) const;

  // To be called before a signal ends the workers: prints if they wait already.
  void before_end();

  // Whether the folder is needed after the job.
  bool has_printed() const { return has_printed_; }

 private:
  enum class Job { Runs, Ends };
  void print(std::chrono::milliseconds at_least, Job job);

  const Setup setup_;
  std::optional<FolderEvents> events_;
  bool asked_ = false;
  Deadline quiet_until_ = Deadline::after(std::chrono::seconds(0));
  std::string last_;
  bool has_printed_ = false;
};

} // namespace argosy::launch
