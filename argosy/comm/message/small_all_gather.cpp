#include "argosy/comm/message/small_all_gather.h"

#include <algorithm>
#include <cstring>

#include "argosy/common/error.h"

namespace argosy::comm::message {

namespace {

using Length = std::uint32_t;

} // namespace

// Bruck's algorithm: in each step a rank doubles the values that it holds, by
// receiving those of the rank that follows its last one. The values are in
// rotated order, beginning with our own; gather() undoes the rotation.
std::vector<BruckStep> bruck_steps(int rank, int size) {
  std::vector<BruckStep> steps;
  for (int has = 1; has < size; has *= 2) {
    steps.push_back(
        {.to = (rank - has + size) % size,
         .from = (rank + has) % size,
         .count = std::min(has, size - has)});
  }
  return steps;
}

SmallAllGather::SmallAllGather(Messenger& messenger, std::size_t max_bytes)
    : messenger_(messenger), max_bytes_(max_bytes) {
  for (const BruckStep& plan :
       bruck_steps(messenger.rank(), messenger.size())) {
    Step step{.plan = plan, .buffer = {}, .arrival = {}, .error = {}};
    step.buffer.resize(
        static_cast<std::size_t>(plan.count) * (sizeof(Length) + max_bytes));
    steps_.push_back(std::move(step));
  }
  held_.reserve(
      static_cast<std::size_t>(messenger.size()) *
      (sizeof(Length) + max_bytes));
  for (Step& step : steps_) {
    expect(step);
  }
}

// A rank that has left after this operation is none of its failures.
void SmallAllGather::expect(Step& step) {
  try {
    step.arrival = PeerTransfer::receive(
        messenger_,
        step.plan.from,
        Tag::Enter,
        step.buffer.data(),
        step.buffer.size());
  } catch (const ConnectionLost&) {
    step.error = std::current_exception();
  }
}

std::vector<ByteSpan> SmallAllGather::gather(
    ByteSpan own, TransferSet& transfers) {
  ARGOSY_ASSERT(own.size() <= max_bytes_, own.size());
  held_.clear();
  offsets_ = {0};
  append(own);
  for (Step& step : steps_) {
    // held_ never grows beyond what it reserved: what is on its way stays put.
    transfers.send(
        step.plan.to,
        Tag::Enter,
        held_.data(),
        offsets_[static_cast<std::size_t>(step.plan.count)]);
    if (step.error) {
      std::rethrow_exception(step.error);
    }
    step.arrival.wait(transfers.deadline());
    append(step);
    expect(step);
  }
  transfers.wait_all();
  const auto size = static_cast<std::size_t>(messenger_.size());
  const auto rank = static_cast<std::size_t>(messenger_.rank());
  std::vector<ByteSpan> all(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t begin = offsets_[i] + sizeof(Length);
    all[(rank + i) % size] =
        ByteSpan(held_.data() + begin, offsets_[i + 1] - begin);
  }
  return all;
}

void SmallAllGather::append(ByteSpan value) {
  const auto length = static_cast<Length>(value.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(&length);
  held_.insert(held_.end(), bytes, bytes + sizeof(length));
  held_.insert(held_.end(), value.begin(), value.end());
  offsets_.push_back(held_.size());
}

void SmallAllGather::append(const Step& step) {
  const std::byte* at = step.buffer.data();
  for (int i = 0; i < step.plan.count; ++i) {
    Length length = 0;
    std::memcpy(&length, at, sizeof(length));
    ARGOSY_ASSERT(length <= max_bytes_, length);
    append(ByteSpan(at + sizeof(length), length));
    at += sizeof(length) + length;
  }
}

} // namespace argosy::comm::message
