#include "argosy/comm/hierarchy/hierarchical_backend.h"

#include <cstring>
#include <optional>
#include <utility>

#include "argosy/comm/hierarchy/levels.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/message/failure_agreement.h"
#include "argosy/comm/message/message_backend.h"
#include "argosy/comm/message/sub_messenger.h"
#include "argosy/comm/operation/op_record.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"

namespace argosy::comm::hierarchy {

namespace {

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

// Collectives in two levels: the ranks of a host work through shared memory,
// and one leader of each host talks to the other leaders, so that data crosses
// the network once for each host instead of once for each rank; all_to_all and
// messages have nothing to share and go directly. Sums are formed host by host,
// then over hosts. The inner backends have no failure store of
// their own: failures_ settles the errors of both levels for the whole group.
class HierarchicalBackend final : public Backend {
 public:
  explicit HierarchicalBackend(HierarchySetup setup)
      : hosts_(std::move(setup.hosts)),
        rank_(setup.network->rank()),
        size_(setup.network->size()),
        own_host_(hosts_.host_of(rank_)),
        group_(std::move(setup.group)),
        global_ranks_(std::move(setup.global_ranks)),
        network_(std::move(setup.network)),
        host_(std::move(setup.host)),
        failures_(
            {.group = group_,
             .rank = rank_,
             .size = size_,
             .labels = global_ranks_,
             .failure_store = std::move(setup.failure_store),
             .cut =
                 [this](const std::string& reason) {
                   host_->abort(reason);
                   network_->abort(reason);
                 }}),
        all_(message::make_message_backend(
            group_,
            message::make_sub_messenger(network_, everybody(size_), 0),
            nullptr,
            global_ranks_)) {
    if (hosts_.local_rank_of(rank_) == 0) {
      leaders_ = message::make_message_backend(
          group_,
          message::make_sub_messenger(network_, hosts_.leaders(), kLeaderTags),
          nullptr,
          global(hosts_.leaders()));
    }
    levels_.emplace(hosts_, rank_, *host_, leaders_.get());
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
    collective(make_record(OpKind::AllReduce, count, reduction), deadline, [&] {
      const Reduction sum = summed(reduction);
      host_->reduce(in, out, count, sum, 0, deadline);
      if (is_leader()) {
        leaders_->all_reduce(out, out, count, sum, deadline);
        divide(out, count, reduction);
      }
      host_->broadcast(out, count, reduction.dtype, 0, deadline);
    });
  }

  // Non-leaders have no room: only local rank 0 receives the host's sum.
  void reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      int root,
      Deadline deadline) override {
    collective(
        make_record(OpKind::Reduce, count, reduction, root), deadline, [&] {
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
          levels_->hand_to(
              root, room.data(), out, count, reduction.dtype, deadline);
        });
  }

  void broadcast(
      void* data,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    collective(
        make_record(OpKind::Broadcast, count, dtype, root), deadline, [&] {
          const int root_host = hosts_.host_of(root);
          if (own_host_ == root_host) {
            host_->broadcast(
                data, count, dtype, hosts_.local_rank_of(root), deadline);
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
    collective(make_record(OpKind::AllGather, count, dtype), deadline, [&] {
      const PackedBlocks all(out, size_of(dtype), PackedBlocks::Use::Output);
      levels_->gather_on_leaders(
          in, all.data(), count, dtype, levels_->all_hosts(), deadline);
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
    collective(make_record(OpKind::Gather, count, dtype, root), deadline, [&] {
      const int root_host = hosts_.host_of(root);
      const std::size_t total = count * static_cast<std::size_t>(size_);
      const bool assembles = is_leader() && own_host_ == root_host;
      Bytes room(assembles ? total * size_of(dtype) : 0);
      levels_->gather_on_leaders(
          in, room.data(), count, dtype, {root_host}, deadline);
      if (rank_ != root) {
        levels_->hand_to(root, room.data(), nullptr, total, dtype, deadline);
        return;
      }
      const PackedBlocks all(out, size_of(dtype), PackedBlocks::Use::Output);
      levels_->hand_to(root, room.data(), all.data(), total, dtype, deadline);
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
    collective(make_record(OpKind::Scatter, count, dtype, root), deadline, [&] {
      const std::size_t total = count * static_cast<std::size_t>(size_);
      const int root_host = hosts_.host_of(root);
      const bool distributes = is_leader() && own_host_ == root_host;
      Bytes room(distributes ? total * size_of(dtype) : 0);
      if (rank_ == root) {
        const PackedBlocks all(in, size_of(dtype), PackedBlocks::Use::Input);
        levels_->hand_to_leader(
            root, all.data(), room.data(), total, dtype, deadline);
      } else {
        levels_->hand_to_leader(
            root, nullptr, room.data(), total, dtype, deadline);
      }
      const Bytes shares =
          levels_->to_hosts(room.data(), count, dtype, root_host, deadline);
      levels_->scatter_on_host(shares, out, count, dtype, deadline);
    });
  }

  void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    collective(
        make_record(OpKind::ReduceScatter, count, reduction), deadline, [&] {
          const DType dtype = reduction.dtype;
          const std::size_t total = count * static_cast<std::size_t>(size_);
          const PackedBlocks given(
              in, size_of(dtype), PackedBlocks::Use::Input);
          Bytes room(is_leader() ? total * size_of(dtype) : 0);
          host_->reduce(
              given.data(), room.data(), total, summed(reduction), 0, deadline);
          const Bytes shares = levels_->to_hosts(
              room.data(), count, dtype, Levels::kEveryHost, deadline);
          Bytes sums(levels_->own_bytes(count, dtype));
          if (is_leader()) {
            levels_->add_hosts(shares, sums, count, reduction);
          }
          levels_->scatter_on_host(sums, out, count, dtype, deadline);
        });
  }

  // What goes to other hosts goes there directly.
  void all_to_all(
      const Blocks& in,
      const Blocks& out,
      DType dtype,
      Deadline deadline) override {
    collective(make_record(OpKind::AllToAll, 0, dtype), deadline, [&] {
      check_counts(in, out, deadline);
      host_->all_to_all(
          levels_->of_own_host(in), levels_->of_own_host(out), dtype, deadline);
      all_->all_to_all(
          levels_->of_other_hosts(in),
          levels_->of_other_hosts(out),
          dtype,
          deadline);
    });
  }

  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    guarded(make_record(OpKind::Send, count, dtype, peer), deadline, [&] {
      all_->send(data, count, dtype, peer, deadline);
    });
  }

  void receive(
      void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    guarded(make_record(OpKind::Recv, count, dtype, peer), deadline, [&] {
      all_->receive(data, count, dtype, peer, deadline);
    });
  }

  int await_any_message(Deadline deadline) override {
    int peer = -1;
    guarded(make_record(OpKind::Recv, 0, DType::UInt8), deadline, [&] {
      peer = all_->await_any_message(deadline);
    });
    return peer;
  }

  void abort(const std::string& reason) override { failures_.abort(reason); }

 private:
  bool is_leader() const { return leaders_ != nullptr; }

  std::vector<int> global(std::vector<int> ranks) const {
    for (int& rank : ranks) {
      rank = global_ranks_.empty()
          ? rank
          : global_ranks_[static_cast<std::size_t>(rank)];
    }
    return ranks;
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

  // The levels compare only what their own members call. Ranks of different
  // hosts could disagree unnoticed, so all records are compared first.
  void agree(const OpRecord& own, Deadline deadline) {
    const Bytes all = levels_->known_to_all(&own, sizeof(own), deadline);
    std::vector<OpRecord> records(static_cast<std::size_t>(size_));
    std::memcpy(records.data(), all.data(), all.size());
    check_agreed(disagreement(records, global_ranks_), own, group_);
  }

  void check_counts(const Blocks& in, const Blocks& out, Deadline deadline) {
    std::vector<std::uint64_t> own;
    for (const Blocks* blocks : {&in, &out}) {
      for (const Block& block : *blocks) {
        own.push_back(block.count);
      }
    }
    const std::size_t bytes = own.size() * sizeof(own[0]);
    const Bytes all = levels_->known_to_all(own.data(), bytes, deadline);
    std::vector<RankCounts> counts;
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
    check_agreed(disagreement(counts, global_ranks_), what, group_);
  }

  template <typename Body>
  void collective(OpRecord what, Deadline deadline, const Body& body) {
    what.sequence = ++sequence_;
    guarded(what, deadline, [&] {
      fault_point("hierarchy.enter");
      agree(what, deadline);
      fault_point("hierarchy.entered");
      body();
    });
  }

  template <typename Body>
  void guarded(const OpRecord& op, Deadline deadline, const Body& body) {
    failures_.check();
    try {
      body();
    } catch (...) {
      failures_.settle(std::current_exception(), op, deadline);
    }
  }

  const Hosts hosts_;
  const int rank_;
  const int size_;
  const int own_host_;
  const std::string group_;
  const std::vector<int> global_ranks_; // empty: 0, 1, ...
  const std::shared_ptr<message::Messenger> network_;
  const std::unique_ptr<Backend> host_;
  message::FailureAgreement failures_;
  const std::unique_ptr<Backend> all_; // over the network alone
  std::unique_ptr<Backend> leaders_;   // null unless this rank is one
  std::optional<Levels> levels_;       // set by the constructor
  std::uint64_t sequence_ = 0;
};

} // namespace

std::unique_ptr<Backend> make_hierarchical_backend(HierarchySetup setup) {
  return std::make_unique<HierarchicalBackend>(std::move(setup));
}

} // namespace argosy::comm::hierarchy
