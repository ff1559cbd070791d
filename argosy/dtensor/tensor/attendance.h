#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace c10d {
class Store;
}

namespace argosy {
class World;
}

// A function that reads one number, such as item(), looks local and is easily
// called on one rank alone, which then waits for the others until the time
// limit. So a rank that waits in such a call says for whom, after a few seconds
// (ARGOSY_ITEM_WARNING): it writes to the store that it waits, and looks who
// else does.
namespace argosy::dtensor {

class Attendance {
 public:
  Attendance(
      c10::intrusive_ptr<c10d::Store> store,
      int rank,
      std::chrono::milliseconds patience);
  ~Attendance();
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  // While it lives, this rank is in a call that all `ranks` must make. `what`
  // says which, for the warning.
  class Call {
   public:
    Call(Attendance& attendance, std::vector<int> ranks, std::string what);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Attendance& attendance_;
  };

  // The store has it once a rank has warned about the `number`th call of these
  // ranks.
  static std::string warned_key(const std::vector<int>& ranks, long number);

 private:
  struct Waiting {
    std::vector<int> ranks;
    std::string what;
    long number; // of this call among those of the same ranks
    std::chrono::steady_clock::time_point since;
    int steps = 0; // of the warning that are done
  };

  void watch();
  void act(Waiting waiting);

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const std::chrono::milliseconds patience_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool ends_ = false;
  std::map<std::vector<int>, long> numbers_;
  std::optional<Waiting> waiting_;

  std::thread thread_; // last: uses the others
};

// The one of the calling thread's rank; null on a thread that is none, and when
// ARGOSY_ITEM_WARNING is 0.
std::shared_ptr<Attendance> attendance();

} // namespace argosy::dtensor
