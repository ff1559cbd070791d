#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/launch/folder_events.h"
#include "argosy/launch/hang_share.h"

namespace argosy::launch {

// Reads flight records: the launcher itself knows nothing of operations.
struct HangReader {
  // What the workers that write to a folder do now, as a text. Waits for up to
  // a second for so many of them.
  std::function<std::string(const std::string& folder, int num_workers)>
      collect;
  // Says who waits for whom, by the texts of all nodes, in operations that take
  // at least so long; empty if there is none.
  std::function<std::string(
      const std::vector<std::string>& records,
      std::chrono::milliseconds at_least)>
      describe;
};

// Prints to the console when workers wait for each other too long, and answers
// the launchers of other nodes that want to do so. Never throws: a job that
// runs must not end because of a notice.
class HangNotice {
 public:
  struct Setup {
    std::string folder; // where workers write flight records; empty: nowhere
    std::chrono::milliseconds after{0}; // zero: never
    int num_workers = 1;                // of this node
    int num_nodes = 1;
    HangReader reader;
    HangShare* share = nullptr; // null: other nodes cannot be asked
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
  // While other nodes answer.
  struct Round {
    int ask = 0;
    std::string own;
    Deadline deadline;
  };

  bool looks_by_itself() const;
  std::string collect() const;
  std::optional<Round> begin_round();
  void answer_others(bool look);
  void end_round(Job job, std::chrono::milliseconds at_least);
  std::string silence_text(int answers) const;
  void print(
      const std::vector<std::string>& records,
      std::chrono::milliseconds at_least,
      Job job);

  const Setup setup_;
  std::optional<FolderEvents> events_;
  bool asked_ = false;
  int answered_ = 0; // the last ask
  std::optional<Round> round_;
  Deadline quiet_until_ = Deadline::after(std::chrono::seconds(0));
  Deadline next_look_ = Deadline::after(std::chrono::seconds(0));
  std::string last_;
  bool has_printed_ = false;
};

} // namespace argosy::launch
