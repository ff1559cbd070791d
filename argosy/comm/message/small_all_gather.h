#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <vector>

#include "argosy/comm/message/transfer_set.h"

namespace argosy::comm::message {

using ByteSpan = std::span<const std::byte>;

// A step of Bruck's all-gather: a rank that holds the values of `has`
// consecutive ranks, its own first, sends the first `count` of them on.
struct BruckStep {
  int to = 0;
  int from = 0;
  int count = 0; // values each way

  bool operator==(const BruckStep&) const = default;
};

// ceil(log2(size)) steps, after which every rank holds the values of all. No
// rank meets another twice in the same direction.
std::vector<BruckStep> bruck_steps(int rank, int size);

// All-gathers short values, over and over. Receives for the next call are
// posted before this one returns, so that no sender waits for its receiver.
// Used by one thread at a time.
class SmallAllGather {
 public:
  SmallAllGather(Messenger& messenger, std::size_t max_bytes);

  std::size_t max_bytes() const { return max_bytes_; }

  // Returns the values of all ranks, in rank order, valid until the next call.
  std::vector<ByteSpan> gather(ByteSpan own, TransferSet& transfers);

 private:
  struct Step {
    BruckStep plan;
    std::vector<std::byte> buffer; // what `plan.from` sends
    PeerTransfer arrival;
    std::exception_ptr error; // met while posting the next arrival
  };

  void expect(Step& step);
  void append(ByteSpan value);
  void append(const Step& step);

  Messenger& messenger_;
  const std::size_t max_bytes_;
  std::vector<Step> steps_;
  std::vector<std::byte> held_;      // values, each behind its length
  std::vector<std::size_t> offsets_; // of the values in held_, and its end
};

} // namespace argosy::comm::message
