#pragma once

#include <cstddef>
#include <vector>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/hierarchy/hosts.h"

namespace argosy::comm::hierarchy {

using Bytes = std::vector<std::byte>;

// The two levels of a group, seen from one rank: the ranks of its host, and the
// leaders of all hosts. Has the steps that collectives are made of. All ranks
// must call the same steps in the same order; on a rank that a step does not
// concern, it does nothing.
class Levels {
 public:
  // `leaders` is null unless this rank leads its host.
  Levels(const Hosts& hosts, int rank, Backend& host, Backend* leaders);

  static constexpr int kEveryHost = -1;

  int own_host() const { return own_host_; }
  bool is_leader() const { return leaders_ != nullptr; }
  std::vector<int> all_hosts() const;

  // On the leader, the bytes of `count` elements for each rank of its host; 0
  // elsewhere.
  std::size_t own_bytes(std::size_t count, DType dtype) const;

  // Sends from the leader of the root's host to the root, unless they are one.
  void hand_to(
      int root,
      const void* data,
      void* out,
      std::size_t count,
      DType dtype,
      Deadline deadline);

  // Sends from the root to the leader of its host, unless they are one.
  void hand_to_leader(
      int root,
      const void* data,
      void* room,
      std::size_t count,
      DType dtype,
      Deadline deadline);

  // Gathers the data of all ranks, in rank order, on the leaders of some hosts.
  void gather_on_leaders(
      const void* in,
      void* all,
      std::size_t count,
      DType dtype,
      const std::vector<int>& takers,
      Deadline deadline);

  // Leaders send to each host the parts for its ranks, of data that has a part
  // of `count` elements for each rank. `sender` is one host, or kEveryHost.
  // Returns what this rank received, host by host.
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

  // Gathers `bytes` at `own` of every rank, in rank order, on all ranks.
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
