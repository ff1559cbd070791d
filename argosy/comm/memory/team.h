#pragma once

#include <string>

#include "argosy/comm/memory/layout.h"
#include "argosy/comm/memory/peers.h"
#include "argosy/comm/memory/segments.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::memory {

// Synchronises the collectives of ranks that share memory: entering operations
// together, and rounds within one. Used by one thread at a time; throws as
// Peers does.
class Team {
 public:
  explicit Team(Peers& peers) : peers_(peers) {}

  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  Peers& peers() const { return peers_; }
  Segments& segments() { return segments_; }

  // Begins the next operation: blocks until all ranks have begun it. Throws
  // InvalidArgument, on all ranks, if they do not all begin the same.
  void enter(OpOffer offer, Deadline deadline);

  // What the ranks published on entering the current operation.
  const OpOffer& offer_of(int rank) const;
  // The access that works for the buffers of all.
  Access common_access() const;
  // Whether the data should go through windows: no access works for all, or one
  // that is slower.
  bool windows_are_better() const;

  // How peers access a buffer of this rank, and the reference that they need.
  Access access_of(const void* data) const;
  BufferRef ref_of(const void* data, Access access) const;
  // The address in this process of a mapped buffer of a rank.
  std::byte* local_address(int rank, BufferRef ref) const;

  // To be held while reading or writing the buffers of others.
  Peers::BufferGuard guard_buffers() const {
    return Peers::BufferGuard(peers_);
  }

  // Copy from and to a buffer that `peer` refers to; not Access::Windowed.
  void fetch(int peer, void* to, BufferRef from, std::size_t bytes);
  void store(int peer, BufferRef to, const void* from, std::size_t bytes);

  // The window that small operations fill before they enter. Peers read it
  // after, as small_window(their rank).
  std::byte* next_small_window();
  const std::byte* small_window(int rank) const;

  // Rounds of large operations. Each operation numbers its rounds from 0 and
  // finally calls end_rounds() with how many it had.
  std::byte* window(int rank, int index) const;
  void publish_staged(std::uint32_t round);
  void publish_reduced(std::uint32_t round);
  void publish_consumed(std::uint32_t round);
  void await_staged(std::uint32_t round, Deadline deadline);
  void await_reduced(std::uint32_t round, Deadline deadline);
  void await_consumed(std::uint32_t round, Deadline deadline);
  void end_rounds(std::uint32_t num_rounds);

  // Fails the group, for disagreements that only the operation itself finds.
  [[noreturn]] void disagree(const std::string& how);

 private:
  using Member = Counter Control::*;

  Entry& entry(int rank) const;
  void publish_round(Member member, std::uint32_t round);
  void await_round(Member member, std::uint32_t round, Deadline deadline);

  Peers& peers_;
  Segments segments_;
  std::uint32_t sequence_ = 0;      // number of the current operation, from 1
  std::uint32_t rounds_before_ = 0; // of earlier operations
};

} // namespace argosy::comm::memory
