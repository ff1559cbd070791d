#pragma once

#include <cstddef>
#include <vector>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/hierarchy/hosts.h"

namespace argosy::comm::hierarchy {

using Bytes = std::vector<std::byte>;

// The two levels of a group, seen from one rank: those of its host, and the
// leaders of all hosts. What operations of the group are made of: all ranks
// call the same steps in the same order. The parts that concern other ranks do
// nothing on this one.
class Levels {
 public:
  // `leaders` is null unless this rank leads its host.
  Levels(const Hosts& hosts, int rank, Backend& host, Backend* leaders);

  static constexpr int kEveryHost = -1;

  int own_host() const { return own_host_; }
  bool is_leader() const { return leaders_ != nullptr; }
  std::vector<int> all_hosts() const;

  // Bytes of `count` elements for each rank of our host, on its leader.
  std::size_t own_bytes(std::size_t count, DType dtype) const;

  // From the leader of the root's host to the root, where they are not one.
  void hand_to(
      int root,
      const void* data,
      void* out,
      std::size_t count,
      DType dtype,
      Deadline deadline);

  // The other way.
  void hand_to_leader(
      int root,
      const void* data,
      void* room,
      std::size_t count,
      DType dtype,
      Deadline deadline);

  // What all ranks give, in rank order, on the leaders of some hosts.
  void gather_on_leaders(
      const void* in,
      void* all,
      std::size_t count,
      DType dtype,
      const std::vector<int>& takers,
      Deadline deadline);

  // Leaders send each host the parts of its ranks, of data with a part of
  // `count` elements for each rank. `sender` is one host, or every one. Returns
  // what came here, host by host.
  Bytes to_hosts(
      const void* data,
      std::size_t count,
      DType dtype,
      int sender,
      Deadline deadline);

  void add_hosts(
      const Bytes& shares,
      Bytes& sums,
      std::size_t count,
      Reduction reduction) const;

  void scatter_on_host(
      const Bytes& shares,
      void* out,
      std::size_t count,
      DType dtype,
      Deadline deadline);

  Blocks of_own_host(const Blocks& blocks) const;

  Blocks of_other_hosts(const Blocks& blocks) const;

  // Every rank's `bytes` at `own`, in rank order, on all ranks.
  Bytes known_to_all(const void* own, std::size_t bytes, Deadline deadline);

 private:
  const std::vector<int>& own_ranks() const { return ranks_of(own_host_); }
  const std::vector<int>& ranks_of(int host) const {
    return hosts_.ranks[static_cast<std::size_t>(host)];
  }
  std::size_t bytes_for(int host, std::size_t count, DType dtype) const;
  void in_rank_order(
      const std::vector<Bytes>& by_host, void* all, std::size_t each) const;
  Bytes parts_for(int host, const void* data, std::size_t each) const;

  const Hosts& hosts_;
  const int rank_;
  const int size_;
  const int own_host_;
  Backend* const host_;
  Backend* const leaders_;
};

} // namespace argosy::comm::hierarchy
