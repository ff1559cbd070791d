#include <liburing.h>

#include <cerrno>
#include <unordered_map>

#include "argosy/common/error.h"
#include "argosy/offload/scratch_file.h"
#include "argosy/offload/transfers.h"

namespace argosy::offload {

namespace {

constexpr unsigned kDepth = 64; // blocks under way

class Ring {
 public:
  Ring() : error_(::io_uring_queue_init(kDepth, &ring_, 0)) {}
  ~Ring() {
    if (is_open()) {
      ::io_uring_queue_exit(&ring_);
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  bool is_open() const { return error_ == 0; }
  io_uring* get() { return &ring_; }

 private:
  io_uring ring_{};
  const int error_; // or 0
};

class UringIo final : public BlockIo {
 public:
  UringIo(const ScratchFile& file, std::unique_ptr<Ring> ring)
      : file_(file), ring_(std::move(ring)), transfers_(file) {}

  // Waits: the kernel would go on writing to memory that is freed.
  ~UringIo() override {
    transfers_.forget_waiting();
    while (transfers_.num_started() > 0 && take_one(nullptr)) {
    }
  }

  Ticket start(const Transfer& transfer) override {
    const Ticket ticket = transfers_.add(transfer);
    pump();
    return ticket;
  }

  bool is_done(Ticket ticket) override {
    pump();
    return transfers_.is_done(ticket);
  }

  void wait(Ticket ticket, const Deadline& deadline) override {
    while (!is_done(ticket)) {
      if (deadline.expired()) {
        transfers_.time_out(ticket, deadline);
      }
      // Short waits, so that the deadline is looked at again and tv_sec is 0.
      const auto slice = deadline.remaining(std::chrono::milliseconds(100));
      __kernel_timespec limit{
          .tv_sec = 0, .tv_nsec = slice.count() * 1'000'000};
      take_one(&limit);
    }
  }

  void close(Ticket ticket) override { transfers_.close(ticket); }

 private:
  // Collects finished blocks, and starts new ones while there is room.
  void pump() {
    io_uring_cqe* done = nullptr;
    while (::io_uring_peek_cqe(ring_->get(), &done) == 0) {
      take(done);
    }
    while (transfers_.num_started() < static_cast<int>(kDepth)) {
      const auto block = transfers_.take();
      if (!block) {
        break;
      }
      prepare(*block);
    }
    ::io_uring_submit(ring_->get());
  }

  void prepare(const Transfers::Block& block) {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_->get());
    ARGOSY_ASSERT(entry != nullptr, "of ", kDepth);
    const auto& [writes, offset, memory, bytes] = block.rest;
    ::io_uring_prep_rw(
        writes ? IORING_OP_WRITE : IORING_OP_READ,
        entry,
        file_.fd(),
        memory,
        static_cast<unsigned>(bytes),
        static_cast<std::uint64_t>(offset));
    entry->user_data = next_;
    started_.emplace(next_++, block);
  }

  // Waits for a block; returns whether one finished in time.
  bool take_one(__kernel_timespec* limit) {
    io_uring_cqe* done = nullptr;
    const int error = ::io_uring_wait_cqe_timeout(ring_->get(), &done, limit);
    if (error == 0) {
      take(done);
    }
    return error == 0 || error == -EINTR;
  }

  void take(io_uring_cqe* done) {
    const auto node = started_.extract(done->user_data);
    const std::int64_t result = done->res;
    ::io_uring_cqe_seen(ring_->get(), done);
    if (node) {
      transfers_.finish(node.mapped(), result);
    }
  }

  const ScratchFile& file_;
  const std::unique_ptr<Ring> ring_;
  Transfers transfers_;
  std::unordered_map<std::uint64_t, Transfers::Block> started_;
  std::uint64_t next_ = 0;
};

} // namespace

std::unique_ptr<BlockIo> make_uring_io(const ScratchFile& file) {
  auto ring = std::make_unique<Ring>();
  if (!ring->is_open()) {
    return nullptr;
  }
  return std::make_unique<UringIo>(file, std::move(ring));
}

} // namespace argosy::offload
