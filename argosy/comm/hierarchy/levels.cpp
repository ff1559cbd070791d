#include "argosy/comm/hierarchy/levels.h"

#include <algorithm>
#include <cstring>

#include "argosy/comm/kernels/reduce.h"

namespace argosy::comm::hierarchy {

Levels::Levels(const Hosts& hosts, int rank, Backend& host, Backend* leaders)
    : hosts_(hosts),
      rank_(rank),
      size_(hosts.num_ranks()),
      own_host_(hosts.host_of(rank)),
      host_(&host),
      leaders_(leaders) {}

std::vector<int> Levels::all_hosts() const {
  std::vector<int> hosts;
  for (int host = 0; host < hosts_.size(); ++host) {
    hosts.push_back(host);
  }
  return hosts;
}

std::size_t Levels::bytes_for(int host, std::size_t count, DType dtype) const {
  return ranks_of(host).size() * count * size_of(dtype);
}

std::size_t Levels::own_bytes(std::size_t count, DType dtype) const {
  return is_leader() ? bytes_for(own_host_, count, dtype) : 0;
}

void Levels::hand_to(
    int root,
    const void* data,
    void* out,
    std::size_t count,
    DType dtype,
    Deadline deadline) {
  if (own_host_ != hosts_.host_of(root)) {
    return;
  }
  const int local_rank = hosts_.local_rank_of(root);
  if (is_leader() && local_rank == 0) {
    copy(out, data, count * size_of(dtype));
  } else if (is_leader()) {
    host_->send(data, count, dtype, local_rank, deadline);
  } else if (rank_ == root) {
    host_->receive(out, count, dtype, 0, deadline);
  }
}

void Levels::hand_to_leader(
    int root,
    const void* data,
    void* room,
    std::size_t count,
    DType dtype,
    Deadline deadline) {
  if (own_host_ != hosts_.host_of(root)) {
    return;
  }
  if (rank_ == root && is_leader()) {
    copy(room, data, count * size_of(dtype));
  } else if (rank_ == root) {
    host_->send(data, count, dtype, 0, deadline);
  } else if (is_leader()) {
    host_->receive(room, count, dtype, hosts_.local_rank_of(root), deadline);
  }
}

void Levels::gather_on_leaders(
    const void* in,
    void* all,
    std::size_t count,
    DType dtype,
    const std::vector<int>& takers,
    Deadline deadline) {
  Bytes own(own_bytes(count, dtype));
  const int num_own = static_cast<int>(own_ranks().size());
  host_->gather(
      in,
      is_leader() ? packed_blocks(own.data(), num_own, count, size_of(dtype))
                  : Blocks{},
      count,
      dtype,
      0,
      deadline);
  if (!is_leader()) {
    return;
  }
  const auto takes = [&](int host) {
    return std::ranges::find(takers, host) != takers.end();
  };
  std::vector<Bytes> theirs;
  Blocks from;
  Blocks to;
  for (int host = 0; host < hosts_.size(); ++host) {
    from.push_back({own.data(), takes(host) ? own.size() / size_of(dtype) : 0});
    theirs.emplace_back(takes(own_host_) ? bytes_for(host, count, dtype) : 0);
  }
  for (Bytes& bytes : theirs) {
    to.push_back({bytes.data(), bytes.size() / size_of(dtype)});
  }
  // all_to_all, since hosts may have different numbers of ranks.
  leaders_->all_to_all(from, to, dtype, deadline);
  if (takes(own_host_)) {
    in_rank_order(theirs, all, count * size_of(dtype));
  }
}

// The ranks of a host need not be consecutive.
void Levels::in_rank_order(
    const std::vector<Bytes>& by_host, void* all, std::size_t each) const {
  auto* to = static_cast<std::byte*>(all);
  for (int host = 0; host < hosts_.size() && each > 0; ++host) {
    const std::byte* from = by_host[static_cast<std::size_t>(host)].data();
    for (const int rank : ranks_of(host)) {
      std::memcpy(to + static_cast<std::size_t>(rank) * each, from, each);
      from += each;
    }
  }
}

Bytes Levels::to_hosts(
    const void* data,
    std::size_t count,
    DType dtype,
    int sender,
    Deadline deadline) {
  if (!is_leader()) {
    return {};
  }
  const auto sends = [&](int host) {
    return sender == kEveryHost || sender == host;
  };
  const std::size_t each = count * size_of(dtype);
  std::vector<Bytes> parts;
  Blocks from;
  Blocks to;
  std::size_t num_senders = 0;
  for (int host = 0; host < hosts_.size(); ++host) {
    parts.push_back(sends(own_host_) ? parts_for(host, data, each) : Bytes());
    num_senders += sends(host) ? 1 : 0;
  }
  const std::size_t share = own_ranks().size() * count;
  Bytes shares(num_senders * share * size_of(dtype));
  std::byte* at = shares.data();
  for (int host = 0; host < hosts_.size(); ++host) {
    Bytes& part = parts[static_cast<std::size_t>(host)];
    from.push_back({part.data(), part.size() / size_of(dtype)});
    to.push_back({at, sends(host) ? share : 0});
    at += sends(host) ? share * size_of(dtype) : 0;
  }
  leaders_->all_to_all(from, to, dtype, deadline);
  return shares;
}

Bytes Levels::parts_for(int host, const void* data, std::size_t each) const {
  Bytes parts(ranks_of(host).size() * each);
  std::byte* to = parts.data();
  for (const int rank : ranks_of(host)) {
    if (each > 0) {
      std::memcpy(
          to,
          static_cast<const std::byte*>(data) +
              static_cast<std::size_t>(rank) * each,
          each);
    }
    to += each;
  }
  return parts;
}

void Levels::add_hosts(
    const Bytes& shares,
    Bytes& sums,
    std::size_t count,
    Reduction reduction) const {
  std::vector<const void*> inputs;
  for (int host = 0; host < hosts_.size(); ++host) {
    inputs.push_back(
        shares.data() + static_cast<std::size_t>(host) * sums.size());
  }
  const std::size_t num_own = own_ranks().size() * count;
  comm::reduce(
      sums.data(),
      inputs.data(),
      hosts_.size(),
      num_own,
      reduction.dtype,
      reduction.op,
      {.divisor = size_});
}

void Levels::scatter_on_host(
    const Bytes& shares,
    void* out,
    std::size_t count,
    DType dtype,
    Deadline deadline) {
  const int num_own = static_cast<int>(own_ranks().size());
  host_->scatter(
      is_leader() ? packed_blocks(shares.data(), num_own, count, size_of(dtype))
                  : Blocks{},
      out,
      count,
      dtype,
      0,
      deadline);
}

Blocks Levels::of_own_host(const Blocks& blocks) const {
  Blocks own;
  for (const int rank : own_ranks()) {
    own.push_back(blocks[static_cast<std::size_t>(rank)]);
  }
  return own;
}

Blocks Levels::of_other_hosts(const Blocks& blocks) const {
  Blocks others = blocks;
  for (const int rank : own_ranks()) {
    others[static_cast<std::size_t>(rank)].count = 0;
  }
  return others;
}

Bytes Levels::known_to_all(
    const void* own, std::size_t bytes, Deadline deadline) {
  Bytes all(bytes * static_cast<std::size_t>(size_));
  gather_on_leaders(
      own, all.data(), bytes, DType::UInt8, all_hosts(), deadline);
  host_->broadcast(all.data(), all.size(), DType::UInt8, 0, deadline);
  return all;
}

} // namespace argosy::comm::hierarchy
