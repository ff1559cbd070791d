#pragma once

#include <cstdint>
#include <vector>

#include "argosy/comm/op_kind.h"

namespace argosy::comm {

// Hears of every operation that the thread that made it issues, before it runs,
// for as long as it lives. Several hear all. For tests and reports.
class CallListener {
 public:
  struct Call {
    OpKind kind;
    std::uint64_t bytes;           // as TrafficMeter counts them
    const std::vector<int>& ranks; // of the group
  };

  CallListener();
  virtual ~CallListener();
  CallListener(const CallListener&) = delete;
  CallListener& operator=(const CallListener&) = delete;

  virtual void on_call(const Call& call) = 0;

  // Tells those of the calling thread.
  static void tell(const Call& call);

 private:
  CallListener* const outer_;
};

} // namespace argosy::comm
