// A step of AdamW with states in a file, compared to the same step in memory
// and to the disk's speed with as many bytes.

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <limits>

#include "argosy/argosy.h"
#include "argosy/common/file.h"
#include "argosy/offload/block_io.h"
#include "argosy/offload/scratch_file.h"
#include "argosy/offload/states.h"
#include "argosy/optim/adam.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

using offload::OffloadIo;

constexpr std::int64_t kBufferBytes = 16 << 20;

// A flat shard with its optimizer.
class Shard {
 public:
  explicit Shard(std::int64_t numel)
      : adam_(offload::pieces_of(
            at::ones({numel}), at::ones({numel}), kBufferBytes / 8)) {}

  Shard(std::int64_t numel, const offload::OffloadOptions& options)
      : Shard(numel) {
    states_ = offload::offload_states(adam_, options, kBufferBytes);
  }

  double step() {
    return milliseconds_of([this] { adam_.step(); });
  }

  const offload::OffloadedStates& states() const { return *states_; }

 private:
  optim::AdamW adam_;
  std::shared_ptr<offload::OffloadedStates> states_;
};

// Reads and writes the same number of bytes, without computation.
class Disk {
 public:
  Disk(const std::string& folder, std::int64_t bytes)
      : file_(folder, true, std::numeric_limits<std::int64_t>::max()),
        bytes_(bytes),
        memory_(at::empty({3 * kBufferBytes}, at::kByte)) {
    file_.reserve(2 * bytes);
    transfer({true, true}); // so that there is something to read
  }

  double milliseconds() {
    return milliseconds_of([this] { transfer({false, true}); });
  }

 private:
  // `writes` tells for each half of the file whether to write or read it.
  void transfer(const std::array<bool, 2>& writes) {
    auto io = offload::make_uring_io(file_);
    if (!io) {
      io = offload::make_thread_io(file_);
    }
    const auto deadline = Deadline::after(std::chrono::minutes(1));
    std::deque<offload::BlockIo::Ticket> tickets;
    const auto wait_for_all_but = [&](std::size_t count) {
      for (; tickets.size() > count; tickets.pop_front()) {
        io->wait(tickets.front(), deadline);
        io->close(tickets.front());
      }
    };
    for (std::int64_t at = 0; at < bytes_; at += kBufferBytes) {
      for (const std::int64_t half : {0, 1}) {
        tickets.push_back(io->start(
            {writes[static_cast<std::size_t>(half)],
             half * bytes_ + at,
             aligned_memory() + half * kBufferBytes,
             std::min(kBufferBytes, bytes_ - at)}));
      }
      wait_for_all_but(2);
    }
    wait_for_all_but(0);
  }

  std::byte* aligned_memory() const {
    auto* const memory = static_cast<std::byte*>(memory_.data_ptr());
    const auto at = reinterpret_cast<std::intptr_t>(memory);
    return memory + (offload::aligned(at) - at);
  }

  offload::ScratchFile file_;
  const std::int64_t bytes_;
  at::Tensor memory_;
};

void run(Flags flags) {
  Report report("offload", flags);
  const std::int64_t numel = 32 << 20;
  const std::int64_t state_bytes = 8 * numel;
  const TempDir dir;
  const std::string folder = dir.path().string();
  const auto options = [&](OffloadIo io, std::int64_t budget) {
    return offload::OffloadOptions{
        .offload_path = folder, .offload_cpu_size = budget, .io = io};
  };
  Shard in_memory(numel);
  Shard ours(numel, options(OffloadIo::Auto, 0));
  Shard half(numel, options(OffloadIo::Auto, state_bytes / 2));
  Shard threads(numel, options(OffloadIo::Threads, 0));
  Shard mapped(numel, options(OffloadIo::Mapped, 0));
  Disk disk(folder, state_bytes);
  for (Shard* each : {&in_memory, &ours, &half, &threads, &mapped}) {
    each->step(); // allocates the states
  }
  Row row = race(
      "AdamW step, 268 MB of states in a file",
      "ms",
      Better::Lower,
      flags.quick ? 4 : 12,
      {{"ours", [&] { return ours.step(); }},
       {"disk alone", [&] { return disk.milliseconds(); }},
       {"in memory", [&] { return in_memory.step(); }},
       {"half may stay", [&] { return half.step(); }},
       {"threads", [&] { return threads.step(); }},
       {"mapped", [&] { return mapped.step(); }}});
  const auto stats = ours.states().stats();
  row.extra["peak_bytes"] = stats.peak;
  row.extra["state_bytes"] = state_bytes;
  row.extra["uring"] = stats.io == OffloadIo::Uring;
  row.extra["direct"] = stats.direct;
  report.add(std::move(row));
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
