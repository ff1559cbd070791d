#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "argosy/offload/scratch_file.h"
#include "argosy/offload/transfers.h"

namespace argosy::offload {

namespace {

// Several, because each blocks in one read or write, and disks need some depth
// of requests.
constexpr int kThreads = 4;

std::int64_t run(int fd, const Transfer& transfer) {
  const auto& [writes, offset, memory, bytes] = transfer;
  const auto size = static_cast<std::size_t>(bytes);
  const ssize_t done = writes ? ::pwrite(fd, memory, size, offset)
                              : ::pread(fd, memory, size, offset);
  return done < 0 ? -errno : done;
}

class ThreadIo final : public BlockIo {
 public:
  explicit ThreadIo(const ScratchFile& file) : file_(file), transfers_(file) {
    for (int i = 0; i < kThreads; ++i) {
      threads_.emplace_back(
          [this](const std::stop_token& stop) { work(stop); });
    }
  }

  ~ThreadIo() override {
    const std::lock_guard lock(mutex_);
    // The threads end after the block that they are working on: jthread asks
    // them to stop and joins before the other members die.
    transfers_.forget_waiting();
  }

  Ticket start(const Transfer& transfer) override {
    const std::lock_guard lock(mutex_);
    const Ticket ticket = transfers_.add(transfer);
    to_do_.notify_all();
    return ticket;
  }

  bool is_done(Ticket ticket) override {
    const std::lock_guard lock(mutex_);
    return transfers_.is_done(ticket);
  }

  void wait(Ticket ticket, const Deadline& deadline) override {
    std::unique_lock lock(mutex_);
    const bool in_time = done_.wait_until(
        lock, deadline.time(), [&] { return transfers_.is_done(ticket); });
    if (!in_time) {
      transfers_.time_out(ticket, deadline);
    }
  }

  void close(Ticket ticket) override {
    const std::lock_guard lock(mutex_);
    transfers_.close(ticket);
  }

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    std::optional<Transfers::Block> block;
    while (to_do_.wait(lock, stop, [&] {
      block = transfers_.take();
      return block.has_value();
    })) {
      lock.unlock();
      const std::int64_t result = run(file_.fd(), block->rest);
      lock.lock();
      transfers_.finish(*block, result);
      to_do_.notify_one(); // for the rest of a short transfer
      done_.notify_all();
    }
  }

  const ScratchFile& file_;
  std::mutex mutex_;
  Transfers transfers_; // guarded by mutex_
  std::condition_variable_any to_do_;
  std::condition_variable done_;
  std::vector<std::jthread> threads_; // last: they use all of the above
};

} // namespace

std::unique_ptr<BlockIo> make_thread_io(const ScratchFile& file) {
  return std::make_unique<ThreadIo>(file);
}

} // namespace argosy::offload
