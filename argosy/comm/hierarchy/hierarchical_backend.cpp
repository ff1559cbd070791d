#include "argosy/comm/hierarchy/hierarchical_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/message/failures.h"
#include "argosy/comm/message/message_backend.h"
#include "argosy/comm/message/op_record.h"
#include "argosy/comm/message/sub_messenger.h"
#include "argosy/common/error.h"

namespace argosy::comm::hierarchy {

namespace {

using message::OpRecord;
using Bytes = std::vector<std::byte>;

// Tags of the leaders' messages, beside those of all members.
constexpr std::uint64_t kLeaderTags = 16;

std::vector<int> everybody(int size) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(rank);
  }
  return ranks;
}

// An average is a sum until all have been added.
Reduction summed(Reduction reduction) {
  return {
      reduction.dtype,
      reduction.op == ReduceOp::AVG ? ReduceOp::SUM : reduction.op};
}

class HierarchicalBackend final : public Backend {
 public:
  explicit HierarchicalBackend(HierarchySetup setup)
      : hosts_(std::move(setup.hosts)),
        rank_(setup.network->rank()),
        size_(setup.network->size()),
        own_host_(hosts_.host_of(rank_)),
        group_(std::move(setup.group)),
        network_(std::move(setup.network)),
        host_(std::move(setup.host)),
        failures_(
            {.group = group_,
             .rank = rank_,
             .size = size_,
             .labels = {},
             .board = std::move(setup.board),
             .cut =
                 [this](const std::string& reason) {
                   host_->abort(reason);
                   network_->abort(reason);
                 }}),
        all_(message::make_message_backend(
            group_,
            message::make_sub_messenger(network_, everybody(size_), 0),
            nullptr)) {
    if (is_leader()) {
      leaders_ = message::make_message_backend(
          group_,
          message::make_sub_messenger(network_, hosts_.leaders(), kLeaderTags),
          nullptr,
          hosts_.leaders());
    }
  }

  std::string name() const override { return "auto:shm+" + network_->name(); }

  void barrier(Deadline deadline) override {
    collective({}, deadline, [] {});
  }

  void all_reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    collective(record(OpKind::AllReduce, count, reduction), deadline, [&] {
      const Reduction sum = summed(reduction);
      host_->reduce(in, out, count, sum, 0, deadline);
      if (is_leader()) {
        leaders_->all_reduce(out, out, count, sum, deadline);
        divide(out, count, reduction);
      }
      host_->broadcast(out, count, reduction.dtype, 0, deadline);
    });
  }

  void reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      int root,
      Deadline deadline) override {
    collective(record(OpKind::Reduce, count, reduction, root), deadline, [&] {
      const Reduction sum = summed(reduction);
      Bytes room(is_leader() ? count * size_of(reduction.dtype) : 0);
      host_->reduce(in, room.data(), count, sum, 0, deadline);
      if (is_leader()) {
        leaders_->reduce(
            room.data(),
            room.data(),
            count,
            sum,
            hosts_.host_of(root),
            deadline);
        divide(room.data(), count, reduction);
      }
      hand_to(root, room.data(), out, count, reduction.dtype, deadline);
    });
  }

  void broadcast(
      void* data,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    collective(
        record(OpKind::Broadcast, count, sum_of(dtype), root), deadline, [&] {
          const int root_host = hosts_.host_of(root);
          if (own_host_ == root_host) {
            host_->broadcast(
                data, count, dtype, hosts_.place_of(root), deadline);
          }
          if (is_leader()) {
            leaders_->broadcast(data, count, dtype, root_host, deadline);
          }
          if (own_host_ != root_host) {
            host_->broadcast(data, count, dtype, 0, deadline);
          }
        });
  }

  void all_gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      Deadline deadline) override {
    collective(record(OpKind::AllGather, count, sum_of(dtype)), deadline, [&] {
      const PackedBlocks all(out, size_of(dtype), PackedBlocks::Use::Output);
      gather_on_leaders(in, all.data(), count, dtype, all_hosts(), deadline);
      host_->broadcast(
          all.data(),
          count * static_cast<std::size_t>(size_),
          dtype,
          0,
          deadline);
      all.put_back();
    });
  }

  void gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    collective(
        record(OpKind::Gather, count, sum_of(dtype), root), deadline, [&] {
          const int root_host = hosts_.host_of(root);
          const std::size_t total = count * static_cast<std::size_t>(size_);
          const bool assembles = is_leader() && own_host_ == root_host;
          Bytes room(assembles ? total * size_of(dtype) : 0);
          gather_on_leaders(
              in, room.data(), count, dtype, {root_host}, deadline);
          if (rank_ != root) {
            hand_to(root, room.data(), nullptr, total, dtype, deadline);
            return;
          }
          const PackedBlocks all(
              out, size_of(dtype), PackedBlocks::Use::Output);
          hand_to(root, room.data(), all.data(), total, dtype, deadline);
          all.put_back();
        });
  }

  void scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    collective(
        record(OpKind::Scatter, count, sum_of(dtype), root), deadline, [&] {
          const std::size_t total = count * static_cast<std::size_t>(size_);
          const int root_host = hosts_.host_of(root);
          const bool distributes = is_leader() && own_host_ == root_host;
          Bytes room(distributes ? total * size_of(dtype) : 0);
          if (rank_ == root) {
            const PackedBlocks all(
                in, size_of(dtype), PackedBlocks::Use::Input);
            hand_to_leader(
                root, all.data(), room.data(), total, dtype, deadline);
          } else {
            hand_to_leader(root, nullptr, room.data(), total, dtype, deadline);
          }
          const Bytes shares =
              to_hosts(room.data(), count, dtype, root_host, deadline);
          scatter_on_host(shares, out, count, dtype, deadline);
        });
  }

  void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    collective(record(OpKind::ReduceScatter, count, reduction), deadline, [&] {
      const DType dtype = reduction.dtype;
      const std::size_t total = count * static_cast<std::size_t>(size_);
      const PackedBlocks given(in, size_of(dtype), PackedBlocks::Use::Input);
      Bytes room(is_leader() ? total * size_of(dtype) : 0);
      host_->reduce(
          given.data(), room.data(), total, summed(reduction), 0, deadline);
      const Bytes shares =
          to_hosts(room.data(), count, dtype, kEveryHost, deadline);
      Bytes sums(own_bytes(count, dtype));
      if (is_leader()) {
        add_hosts(shares, sums, count, reduction);
      }
      scatter_on_host(sums, out, count, dtype, deadline);
    });
  }

  // What goes to other hosts goes there directly.
  void all_to_all(
      const Blocks& in,
      const Blocks& out,
      DType dtype,
      Deadline deadline) override {
    collective(record(OpKind::AllToAll, 0, sum_of(dtype)), deadline, [&] {
      check_counts(in, out, deadline);
      host_->all_to_all(of_own_host(in), of_own_host(out), dtype, deadline);
      all_->all_to_all(
          of_other_hosts(in), of_other_hosts(out), dtype, deadline);
    });
  }

  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    guarded(
        occasion(record(OpKind::Send, count, sum_of(dtype), peer)),
        deadline,
        [&] { all_->send(data, count, dtype, peer, deadline); });
  }

  void receive(
      void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    guarded(
        occasion(record(OpKind::Recv, count, sum_of(dtype), peer)),
        deadline,
        [&] { all_->receive(data, count, dtype, peer, deadline); });
  }

  int await_any_message(Deadline deadline) override {
    int peer = -1;
    guarded(
        {.op = "recv", .description = "the wait for any message"},
        deadline,
        [&] { peer = all_->await_any_message(deadline); });
    return peer;
  }

  void abort(const std::string& reason) override { failures_.abort(reason); }

 private:
  static constexpr int kEveryHost = -1;

  bool is_leader() const { return hosts_.place_of(rank_) == 0; }

  const std::vector<int>& own_ranks() const { return ranks_of(own_host_); }
  const std::vector<int>& ranks_of(int host) const {
    return hosts_.ranks[static_cast<std::size_t>(host)];
  }

  std::vector<int> all_hosts() const { return everybody(hosts_.size()); }

  // Bytes of `count` elements for each rank of a host.
  std::size_t bytes_for(int host, std::size_t count, DType dtype) const {
    return ranks_of(host).size() * count * size_of(dtype);
  }
  std::size_t own_bytes(std::size_t count, DType dtype) const {
    return is_leader() ? bytes_for(own_host_, count, dtype) : 0;
  }

  static Reduction sum_of(DType dtype) { return {dtype, ReduceOp::SUM}; }

  static OpRecord record(
      OpKind kind, std::size_t count, Reduction reduction, int root = -1) {
    OpRecord result;
    result.kind = kind;
    result.count = count;
    result.dtype = reduction.dtype;
    result.op = reduction.op;
    result.root = root;
    return result;
  }

  static message::Occasion occasion(const OpRecord& what) {
    return {.op = to_string(what.kind), .description = describe(what)};
  }

  void divide(void* data, std::size_t count, Reduction reduction) const {
    if (reduction.op == ReduceOp::AVG) {
      const void* input = data;
      comm::reduce(
          data,
          &input,
          1,
          count,
          reduction.dtype,
          reduction.op,
          {.divisor = size_});
    }
  }

  // From the leader of the root's host to the root, where they are not one.
  void hand_to(
      int root,
      const void* data,
      void* out,
      std::size_t count,
      DType dtype,
      Deadline deadline) {
    if (own_host_ != hosts_.host_of(root)) {
      return;
    }
    const int place = hosts_.place_of(root);
    if (is_leader() && place == 0) {
      copy(out, data, count * size_of(dtype));
    } else if (is_leader()) {
      host_->send(data, count, dtype, place, deadline);
    } else if (rank_ == root) {
      host_->receive(out, count, dtype, 0, deadline);
    }
  }

  // The other way.
  void hand_to_leader(
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
      host_->receive(room, count, dtype, hosts_.place_of(root), deadline);
    }
  }

  // What all ranks give, in rank order, on the leaders of some hosts.
  void gather_on_leaders(
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
      return std::find(takers.begin(), takers.end(), host) != takers.end();
    };
    std::vector<Bytes> theirs;
    Blocks from;
    Blocks to;
    for (int host = 0; host < hosts_.size(); ++host) {
      from.push_back(
          {own.data(), takes(host) ? own.size() / size_of(dtype) : 0});
      theirs.emplace_back(takes(own_host_) ? bytes_for(host, count, dtype) : 0);
    }
    for (Bytes& bytes : theirs) {
      to.push_back({bytes.data(), bytes.size() / size_of(dtype)});
    }
    leaders_->all_to_all(from, to, dtype, deadline);
    if (takes(own_host_)) {
      in_rank_order(theirs, all, count * size_of(dtype));
    }
  }

  void in_rank_order(
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

  // Leaders send each host the parts of its ranks, of data with a part of
  // `count` elements for each rank. `sender` is one host, or every one. Returns
  // what came here, host by host.
  Bytes to_hosts(
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

  Bytes parts_for(int host, const void* data, std::size_t each) const {
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

  void add_hosts(
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

  void scatter_on_host(
      const Bytes& shares,
      void* out,
      std::size_t count,
      DType dtype,
      Deadline deadline) {
    const int num_own = static_cast<int>(own_ranks().size());
    host_->scatter(
        is_leader()
            ? packed_blocks(shares.data(), num_own, count, size_of(dtype))
            : Blocks{},
        out,
        count,
        dtype,
        0,
        deadline);
  }

  Blocks of_own_host(const Blocks& blocks) const {
    Blocks own;
    for (const int rank : own_ranks()) {
      own.push_back(blocks[static_cast<std::size_t>(rank)]);
    }
    return own;
  }

  Blocks of_other_hosts(const Blocks& blocks) const {
    Blocks others = blocks;
    for (const int rank : own_ranks()) {
      others[static_cast<std::size_t>(rank)].count = 0;
    }
    return others;
  }

  // Every rank's `bytes` at `own`, in rank order, on all ranks.
  Bytes known_to_all(const void* own, std::size_t bytes, Deadline deadline) {
    Bytes all(bytes * static_cast<std::size_t>(size_));
    gather_on_leaders(
        own, all.data(), bytes, DType::UInt8, all_hosts(), deadline);
    host_->broadcast(all.data(), all.size(), DType::UInt8, 0, deadline);
    return all;
  }

  void check(const std::string& how, const OpRecord& what) const {
    ARGOSY_CHECK(
        how.empty(),
        "[comm.",
        to_string(what.kind),
        "] ranks disagree about operation ",
        what.sequence,
        " of group ",
        group_,
        ": ",
        how);
  }

  void agree(const OpRecord& own, Deadline deadline) {
    const Bytes all = known_to_all(&own, sizeof(own), deadline);
    std::vector<OpRecord> records(static_cast<std::size_t>(size_));
    std::memcpy(records.data(), all.data(), all.size());
    check(disagreement(records), own);
  }

  void check_counts(const Blocks& in, const Blocks& out, Deadline deadline) {
    std::vector<std::uint64_t> own;
    for (const Blocks* blocks : {&in, &out}) {
      for (const Block& block : *blocks) {
        own.push_back(block.count);
      }
    }
    const std::size_t bytes = own.size() * sizeof(own[0]);
    const Bytes all = known_to_all(own.data(), bytes, deadline);
    std::vector<message::RankCounts> counts;
    for (int rank = 0; rank < size_; ++rank) {
      std::memcpy(
          own.data(),
          all.data() + static_cast<std::size_t>(rank) * bytes,
          bytes);
      const auto middle = own.begin() + size_;
      counts.push_back({{own.begin(), middle}, {middle, own.end()}});
    }
    OpRecord what;
    what.kind = OpKind::AllToAll;
    what.sequence = sequence_;
    check(disagreement(counts), what);
  }

  template <typename Body>
  void collective(OpRecord what, Deadline deadline, const Body& body) {
    what.sequence = ++sequence_;
    message::Occasion when = occasion(what);
    when.description =
        str("operation ", sequence_, " (", when.description, ")");
    guarded(when, deadline, [&] {
      agree(what, deadline);
      body();
    });
  }

  template <typename Body>
  void guarded(
      const message::Occasion& when, Deadline deadline, const Body& body) {
    failures_.check();
    try {
      body();
    } catch (...) {
      failures_.settle(std::current_exception(), when, deadline);
    }
  }

  const Hosts hosts_;
  const int rank_;
  const int size_;
  const int own_host_;
  const std::string group_;
  const std::shared_ptr<message::Messenger> network_;
  const std::unique_ptr<Backend> host_;
  message::Failures failures_;
  const std::unique_ptr<Backend> all_; // over the network alone
  std::unique_ptr<Backend> leaders_;   // null unless this rank is one
  std::uint64_t sequence_ = 0;
};

} // namespace

std::unique_ptr<Backend> make_hierarchical_backend(HierarchySetup setup) {
  return std::make_unique<HierarchicalBackend>(std::move(setup));
}

} // namespace argosy::comm::hierarchy
