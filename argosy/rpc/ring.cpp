#include "argosy/rpc/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "argosy/common/error.h"
#include "argosy/common/futex.h"

namespace argosy::rpc {

namespace {

constexpr std::uint64_t kRingMagic = 0x31474e4952475241; // "ARGRING1"

// Published at least this often, so that the other side copies at the same
// time.
constexpr std::size_t kStride = 32u << 10;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::chrono::nanoseconds time_left(Deadline deadline) {
  return std::max(
      std::chrono::nanoseconds::zero(),
      std::chrono::nanoseconds(deadline.time() - Deadline::Clock::now()));
}

} // namespace

// Positions count bytes since the beginning; each word has one writer, except
// `sleeps`, which the peer resets when it wakes the sleeper.
struct RingArea {
  struct Ring {
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
  };
  struct Side {
    alignas(64) std::atomic<std::uint32_t> sleeps; // a RingSleep
    std::atomic<std::uint32_t> wants_space;
  };

  std::uint64_t magic;
  Ring rings[2]; // written by the side of the same index
  Side sides[2];
  alignas(4096) std::byte data[2][RingMemory::kRingBytes];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::has_single_bit(RingMemory::kRingBytes));

namespace {

std::shared_ptr<RingArea> map_ring_area(int fd) {
  void* memory = ::mmap(
      nullptr, sizeof(RingArea), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw SystemError(with_errno("[rpc.ring] mmap"));
  }
  return {static_cast<RingArea*>(memory), [](RingArea* area) {
            ::munmap(area, sizeof(RingArea));
          }};
}

// Copies between a ring and plain memory; `position` may wrap once.
void copy_in(
    std::byte* ring,
    std::uint64_t position,
    const std::byte* from,
    std::size_t n) {
  const std::size_t at = position % RingMemory::kRingBytes;
  const std::size_t first = std::min(n, RingMemory::kRingBytes - at);
  std::memcpy(ring + at, from, first);
  std::memcpy(ring, from + first, n - first);
}

void copy_out(
    const std::byte* ring,
    std::uint64_t position,
    std::byte* to,
    std::size_t n) {
  const std::size_t at = position % RingMemory::kRingBytes;
  const std::size_t first = std::min(n, RingMemory::kRingBytes - at);
  std::memcpy(to, ring + at, first);
  std::memcpy(to + first, ring, n - first);
}

} // namespace

RingMemory RingMemory::create() {
  RingMemory made;
  made.descriptor_ = store::Socket(
      ::memfd_create("argosy-rpc", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = made.descriptor_.fd();
  if (fd < 0 || ::ftruncate(fd, sizeof(RingArea)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    throw SystemError(with_errno("[rpc.ring] memfd"));
  }
  made.area_ = map_ring_area(fd);
  made.area_->magic = kRingMagic;
  return made;
}

// A file that shrinks would kill whoever reads behind its end, so it must be
// sealed.
RingMemory RingMemory::map(const store::Socket& descriptor) {
  struct stat status {};
  const bool sized = ::fstat(descriptor.fd(), &status) == 0 &&
      status.st_size == static_cast<off_t>(sizeof(RingArea));
  const int seals = ::fcntl(descriptor.fd(), F_GET_SEALS);
  ARGOSY_CHECK(
      sized && seals >= 0 && (seals & kSeals) == kSeals,
      "[rpc.ring] a peer passed {} bytes with seals {}, expected {} bytes with "
      "seals {}",
      status.st_size,
      seals,
      sizeof(RingArea),
      kSeals);
  RingMemory mapped;
  mapped.area_ = map_ring_area(descriptor.fd());
  ARGOSY_CHECK(
      mapped.area_->magic == kRingMagic,
      "[rpc.ring] a peer passed memory that holds no ring");
  return mapped;
}

RingChannel::RingChannel(
    RingMemory memory,
    Side side,
    store::Socket socket,
    store::Socket peer_event)
    : memory_(std::move(memory)),
      area_(*memory_.area()),
      side_(static_cast<int>(side)),
      socket_(std::move(socket)),
      peer_event_(std::move(peer_event)) {}

// A peer that is out of step counts as more than the ring holds.
std::size_t RingChannel::readable() const {
  return area_.rings[1 - side_].written.load(std::memory_order_acquire) -
      read_.load(std::memory_order_relaxed);
}

std::size_t RingChannel::writable() const {
  const std::uint64_t used = written_.load(std::memory_order_relaxed) -
      area_.rings[side_].read.load(std::memory_order_acquire);
  return RingMemory::kRingBytes - used;
}

bool RingChannel::has_data() const {
  return readable() != 0;
}

bool RingChannel::has_space() const {
  return writable() != 0;
}

ssize_t RingChannel::read(std::span<std::byte> room) {
  std::size_t total = 0;
  while (total < room.size()) {
    const std::size_t ready = readable();
    if (ready > RingMemory::kRingBytes) {
      corrupt_ = true;
      return -1;
    }
    if (ready == 0) {
      break;
    }
    const std::size_t n = std::min({ready, room.size() - total, kStride});
    const std::uint64_t at = read_.load(std::memory_order_relaxed);
    copy_out(area_.data[1 - side_], at, room.data() + total, n);
    total += n;
    read_.store(at + n, std::memory_order_relaxed);
    area_.rings[1 - side_].read.store(at + n, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (area_.sides[1 - side_].wants_space.load(std::memory_order_relaxed) !=
            0 &&
        RingMemory::kRingBytes - readable() >= kEnoughSpace) {
      wake_peer();
    }
  }
  return static_cast<ssize_t>(total);
}

ssize_t RingChannel::write(std::span<const std::byte> bytes) {
  std::size_t total = 0;
  while (total < bytes.size()) {
    const std::size_t space = writable();
    if (space > RingMemory::kRingBytes) {
      corrupt_ = true;
      return -1;
    }
    if (space == 0) {
      break;
    }
    const std::size_t n = std::min({space, bytes.size() - total, kStride});
    const std::uint64_t at = written_.load(std::memory_order_relaxed);
    copy_in(area_.data[side_], at, bytes.data() + total, n);
    total += n;
    written_.store(at + n, std::memory_order_relaxed);
    area_.rings[side_].written.store(at + n, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    wake_peer();
  }
  return static_cast<ssize_t>(total);
}

std::string RingChannel::failure() const {
  return corrupt_ ? "the positions in shared memory are out of step" : "";
}

void RingChannel::set_wants_space(bool wants) {
  area_.sides[side_].wants_space.store(
      wants ? 1 : 0, std::memory_order_seq_cst);
}

bool RingChannel::wants_space() const {
  return area_.sides[side_].wants_space.load(std::memory_order_relaxed) != 0;
}

void RingChannel::wake_peer() {
  auto& sleeps = area_.sides[1 - side_].sleeps;
  if (sleeps.load(std::memory_order_relaxed) == 0) {
    return;
  }
  const auto how = static_cast<RingSleep>(sleeps.exchange(0));
  if (how == RingSleep::Futex) {
    futex_wake(sleeps);
  } else if (how == RingSleep::Event) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written =
        ::write(peer_event_.fd(), &one, sizeof(one));
  }
}

// Whoever changes what we wait for looks at the word afterwards; so we write it
// before we look a last time. One of the two sees the other.
void RingChannel::sleep(const std::function<bool()>& ready, Deadline deadline) {
  auto& sleeps = area_.sides[side_].sleeps;
  sleeps.store(static_cast<std::uint32_t>(RingSleep::Futex));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_work() && !ready()) {
    futex_wait(
        sleeps,
        static_cast<std::uint32_t>(RingSleep::Futex),
        time_left(deadline));
  }
  sleeps.store(static_cast<std::uint32_t>(RingSleep::None));
}

void RingChannel::wake_sleeper() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto& sleeps = area_.sides[side_].sleeps;
  auto futex = static_cast<std::uint32_t>(RingSleep::Futex);
  if (sleeps.compare_exchange_strong(futex, 0)) {
    futex_wake(sleeps);
  }
}

bool RingChannel::await_event() {
  area_.sides[side_].sleeps.store(static_cast<std::uint32_t>(RingSleep::Event));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !has_work();
}

// Leaves the word alone if a thread of ours sleeps on it now.
void RingChannel::end_wait() {
  auto event = static_cast<std::uint32_t>(RingSleep::Event);
  area_.sides[side_].sleeps.compare_exchange_strong(event, 0);
}

} // namespace argosy::rpc
