#include "argosy/comm/memory/segments.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/memory/team.h"
#include "argosy/common/error.h"

namespace argosy::comm::memory {

namespace {

constexpr int kOffsetBits = 48; // of a ref; the segment's number is above

// Behind the data of a part, on a page of its own. A rank that releases its
// part keeps the parts of the others mapped, as those may be in use, until all
// ranks have released theirs.
struct Trailer {
  std::atomic<std::uint32_t> released{0};
};

std::size_t data_bytes(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
}

Trailer& trailer(std::byte* part, std::size_t bytes) {
  return *reinterpret_cast<Trailer*>(part + data_bytes(bytes));
}

// What the ranks tell each other: a description or a problem. Of fixed size, so
// that one all_gather carries it.
struct Notice {
  std::uint64_t bytes = 0;
  char text[248] = {};

  void say(const std::string& what) {
    std::strncpy(text, what.c_str(), sizeof(text) - 1);
  }
};

std::vector<Notice> gather_notices(
    Backend& backend, int size, Notice mine, Deadline deadline) {
  std::vector<Notice> all(static_cast<std::size_t>(size));
  backend.all_gather(
      &mine,
      packed_blocks(all.data(), size, sizeof(Notice), 1),
      sizeof(Notice),
      DType::UInt8,
      deadline);
  return all;
}

// Allocates the pages now. Otherwise memory that the system cannot provide
// would show as a signal at its first use. Kernels before 5.14 answer EINVAL.
void populate([[maybe_unused]] std::byte* data, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(data, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    throw SystemError(with_errno("[comm.shm] populate"));
  }
#else
  (void)bytes;
#endif
}

SharedMemory create_part(std::size_t bytes) {
  SharedMemory part = SharedMemory::create(data_bytes(bytes) + kPage);
  populate(part.get(), data_bytes(bytes) + kPage);
  new (&trailer(part.get(), bytes)) Trailer();
  return part;
}

// The parts of all ranks, or why one cannot be had.
std::string map_parts(
    const Team& team,
    const std::vector<Notice>& notices,
    std::optional<SharedMemory> own,
    std::vector<SharedMemory>& parts) {
  try {
    for (int rank = 0; rank < team.size(); ++rank) {
      const Notice& notice = notices[static_cast<std::size_t>(rank)];
      if (rank == team.rank()) {
        parts.push_back(std::move(*own));
      } else {
        parts.push_back(
            SharedMemory::open(notice.text, data_bytes(notice.bytes) + kPage));
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_bytes(Team& team, const std::vector<Notice>& notices) {
  for (int rank = 1; rank < team.size(); ++rank) {
    const auto bytes = notices[static_cast<std::size_t>(rank)].bytes;
    if (bytes != notices.front().bytes) {
      team.disagree(str_format(
          "symmetric memory of {} bytes on rank 0, of {} on rank {}",
          notices.front().bytes,
          bytes,
          rank));
    }
  }
}

// Ends the allocation on all ranks when one has a problem.
void check_problems(const std::vector<Notice>& notices) {
  for (std::size_t rank = 0; rank < notices.size(); ++rank) {
    if (notices[rank].text[0] != '\0') {
      throw SystemError(
          str("[comm.symmetric_empty] rank ", rank, ": ", notices[rank].text));
    }
  }
}

} // namespace

// Three exchanges: has everybody memory, where is it, has everybody mapped it.
// Each rank reports its problem instead of throwing at once, since the others
// would wait for it in the next exchange until their deadline.
std::shared_ptr<std::byte> Segments::allocate(
    Team& team, Backend& backend, std::size_t bytes, Deadline deadline) {
  forget_released();
  const auto gather = [&](const Notice& own_notice) {
    return gather_notices(backend, team.size(), own_notice, deadline);
  };
  std::optional<SharedMemory> own;
  Notice problem;
  try {
    own.emplace(create_part(bytes));
  } catch (const SystemError& error) {
    problem.say(error.what());
  }
  check_problems(gather(problem));
  Notice mine{.bytes = bytes};
  mine.say(own->description());
  const std::vector<Notice> notices = gather(mine);
  check_bytes(team, notices);
  Segment segment{.bytes = bytes, .own = own->get()};
  problem.say(map_parts(team, notices, std::move(own), segment.parts));
  // When this returns, all ranks have mapped our part, so its way in may close.
  check_problems(gather(problem));
  SharedMemory& part = segment.parts[static_cast<std::size_t>(team.rank())];
  part.close_way_in();
  const auto release = [memory = part.share(), bytes](std::byte* data) {
    // Peers may keep the part mapped for long; its pages are freed now.
    ::madvise(data, data_bytes(bytes), MADV_REMOVE);
    trailer(data, bytes).released.store(1, std::memory_order_release);
  };
  std::shared_ptr<std::byte> data(part.get(), release);
  segments_.push_back(std::move(segment));
  return data;
}

// Unmaps segments that all ranks have released. Their entries stay, empty: the
// numbers of later segments must not change.
void Segments::forget_released() {
  for (Segment& segment : segments_) {
    const bool released =
        std::ranges::all_of(segment.parts, [&](SharedMemory& part) {
          const Trailer& end = trailer(part.get(), segment.bytes);
          return end.released.load(std::memory_order_acquire) != 0;
        });
    if (released) {
      segment.parts.clear();
    }
  }
}

std::optional<BufferRef> Segments::find(const void* data) const {
  const auto* address = static_cast<const std::byte*>(data);
  for (std::size_t number = 0; number < segments_.size(); ++number) {
    const Segment& segment = segments_[number];
    if (!segment.parts.empty() && address >= segment.own &&
        address < segment.own + data_bytes(segment.bytes)) {
      return (static_cast<BufferRef>(number) << kOffsetBits) |
          static_cast<BufferRef>(address - segment.own);
    }
  }
  return std::nullopt;
}

std::byte* Segments::local_address(int rank, BufferRef ref) const {
  const Segment& segment = segments_[ref >> kOffsetBits];
  const BufferRef offset = ref & ((BufferRef{1} << kOffsetBits) - 1);
  return segment.parts[static_cast<std::size_t>(rank)].get() + offset;
}

} // namespace argosy::comm::memory
