#include "argosy/comm/group.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "argosy/comm/backend/abort_note.h"
#include "argosy/comm/backend/backend.h"
#include "argosy/comm/call_timeout.h"
#include "argosy/comm/collector.h"
#include "argosy/comm/connect.h"
#include "argosy/comm/flight/black_box.h"
#include "argosy/comm/flight_record.h"
#include "argosy/comm/op.h"
#include "argosy/comm/operation/observer.h"
#include "argosy/comm/traffic.h"
#include "argosy/comm/work.h"
#include "argosy/comm/worker.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

using comm::Backend;
using comm::Op;
using comm::Worker;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// A connection among some members, made by the first who needs it.
class Link {
 public:
  Link(comm::MakeBackend make, comm::Members members)
      : make_(std::move(make)), members_(std::move(members)) {
    members_.abort_note = abort_note_;
  }

  Backend& get(Deadline deadline) {
    // Both lanes of a pair may come here at once: the second one waits. After
    // a failed attempt, the next operation tries again.
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    if (!backend_) {
      fault_point("comm.connect");
      members_.deadline = deadline;
      publish(make_(members_));
      fault_point("comm.connected");
      // abort() may have looked for the backend before.
      if (abort_note_->is_written()) {
        backend_->abort(abort_note_->reason());
      }
      throw_if_aborted();
    }
    return *backend_;
  }

  // Also while the connection is being made: that looks at the note.
  void abort(const std::string& reason) {
    abort_note_->write(reason);
    Backend* backend = nullptr;
    {
      const std::lock_guard lock(backend_mutex_);
      backend = backend_.get();
    }
    if (backend != nullptr) {
      backend->abort(reason);
    }
  }

 private:
  void publish(std::unique_ptr<Backend> made) {
    const std::lock_guard lock(backend_mutex_);
    backend_ = std::move(made);
  }

  void throw_if_aborted() const {
    if (abort_note_->is_written()) {
      throw PeerLost(str_format(
          "[comm] group {} was aborted: {}",
          members_.group,
          abort_note_->reason()));
    }
  }

  const comm::MakeBackend make_;
  const std::shared_ptr<comm::AbortNote> abort_note_ =
      std::make_shared<comm::AbortNote>();
  std::mutex mutex_;                 // held while the connection is made
  comm::Members members_;            // guarded by mutex_
  std::mutex backend_mutex_;         // never held for long
  std::unique_ptr<Backend> backend_; // set once, with both
};

// This rank in its world.
struct Rank {
  int number = 0;
  int world_size = 1;
};

// What carries operations out, one at a time: a connection, and a thread for
// what is not synchronous.
struct Lane {
  // In this order: destruction joins the worker's thread while the connection
  // that its operation uses is still there.
  std::shared_ptr<Link> link;
  Worker worker;

  Lane(std::shared_ptr<Link> its_link, Rank rank)
      : link(std::move(its_link)), worker(rank.number, rank.world_size) {}
};

// Two members: a lane for each direction, so that neither waits for the other.
struct Pair {
  Lane outgoing;
  Lane incoming;

  Pair(const std::shared_ptr<Link>& link, Rank rank)
      : outgoing(link, rank), incoming(link, rank) {}
};

} // namespace

struct Group::Impl {
  // Of the world, which the group may outlive in a user's hands.
  const StorePtr store;
  const Rank global;
  const comm::MakeBackend make;

  // Before the lanes: their threads report to these observers until destruction
  // has joined them.
  comm::flight::GroupRecorder recorder;
  comm::TrafficMeter traffic;
  const comm::Observers<2> observers{&recorder, &traffic};
  Lane collectives;
  std::mutex mutex;
  std::map<int, Pair> pairs; // by the peer's rank; guarded by mutex

  Impl(World& world, const Setup& setup, int rank)
      : store(world.store()),
        global{world.rank(), world.size()},
        make(comm::find_backend(world, setup.backend, key_of(setup))),
        recorder(comm::black_box_of(world), setup.id, setup.ranks),
        collectives(link(setup, key_of(setup), rank, setup.ranks), global) {}

  // Under this name the members meet in the store, so it must be the same on
  // all of them: the number that all count alike, or a key made of the ranks.
  static std::string key_of(const Setup& setup) {
    return setup.key.empty() ? str(setup.id) : setup.key;
  }

  std::shared_ptr<Link> link(
      const Setup& setup,
      const std::string& name,
      int rank,
      const std::vector<int>& ranks) const {
    return std::make_shared<Link>(
        make,
        comm::Members{
            .group = name,
            .rank = rank,
            .global_ranks = ranks,
            .store = comm::group_store(store, name),
            .deadline = Deadline::after(setup.timeout)});
  }

  // Between this rank and another.
  // The map never moves its elements, so the reference stays valid without the
  // lock. Both ends derive the same name and the same order of the two ranks.
  Pair& pair(const Setup& setup, int rank, int peer) {
    const std::lock_guard lock(mutex);
    const auto found = pairs.find(peer);
    if (found != pairs.end()) {
      return found->second;
    }
    const int low = std::min(rank, peer);
    const int high = std::max(rank, peer);
    return pairs
        .try_emplace(
            peer,
            link(
                setup,
                str(key_of(setup), ":", low, "-", high),
                rank == low ? 0 : 1,
                {setup.ranks[static_cast<std::size_t>(low)],
                 setup.ranks[static_cast<std::size_t>(high)]}),
            global)
        .first->second;
  }

  // What carries the operations out, on whatever thread.
  std::function<void()> runner(
      const Setup& setup, int rank, Lane& lane, std::vector<Op> ops);

  // A send and a recv have lanes of their own: a rank may send to a peer while
  // it receives from it, and messages do not wait behind collectives.
  Lane& lane(const Setup& setup, int rank, const Op& op) {
    switch (op.kind) {
      case comm::OpKind::Send:
        return pair(setup, rank, op.root).outgoing;
      case comm::OpKind::Recv:
        return pair(setup, rank, op.root).incoming;
      default:
        return collectives;
    }
  }
};

Group::Group(World& world, Setup setup)
    : setup_(std::move(setup)),
      rank_(get_group_rank(world.rank())),
      impl_(new Impl(world, setup_, rank_)) {}

// An operation that is about to end may do so. One that is not, because another
// rank never comes, must not hold up the end of the program until its deadline.
Group::~Group() {
  constexpr auto kGrace = std::chrono::seconds(2);
  const Deadline grace = Deadline::after(kGrace);
  const auto end = [&](Lane& lane) {
    if (!lane.worker.close(grace)) {
      lane.link->abort("it was destroyed during an operation");
    }
  };
  end(impl_->collectives);
  for (auto& [peer, pair] : impl_->pairs) {
    end(pair.outgoing);
    end(pair.incoming);
  }
}

std::string Group::name() const {
  return str("_default_pg", setup_.id);
}

int Group::get_group_rank(int global_rank) const {
  const auto found = std::ranges::lower_bound(setup_.ranks, global_rank);
  if (found == setup_.ranks.end() || *found != global_rank) {
    return -1;
  }
  return static_cast<int>(found - setup_.ranks.begin());
}

// Observers hear of the issue here, on the calling thread, so that the flight
// recorder numbers operations in the order of the calls; they hear of start and
// end on the thread that runs the function.
std::function<void()> Group::Impl::runner(
    const Setup& setup, int rank, Lane& lane, std::vector<Op> ops) {
  const comm::ObservedOperation observed(
      observers, comm::call_of(ops, setup.ranks), setup.ranks);
  for (Op& op : ops) {
    if (is_pairwise(op.kind)) {
      op.root = op.root > rank ? 1 : 0; // the peer's place in the pair
    }
  }
  // Read here, on the calling thread; the time begins when the operation runs.
  const auto limit = CallTimeout::current().value_or(setup.timeout);
  return [rank, &lane, observed, limit, ops = std::move(ops)] {
    observed.run([&] {
      const Deadline deadline = Deadline::after(limit);
      comm::execute(ops, rank, lane.link->get(deadline), deadline);
    });
  };
}

void Group::check_member(const comm::Op& op) const {
  ARGOSY_CHECK(
      is_member(),
      "[comm.{}] rank {} is no member of group {}",
      to_string(op.kind),
      impl_->global.number,
      id());
}

// Called by user threads. Operations of a lane run in the order of the calls,
// which must be the same on all ranks for collectives.
std::shared_ptr<Work> Group::issue(Op op, bool sync) {
  check_member(op);
  if (op.label.empty()) {
    op.label = LabelScope::current();
  }
  // Also a synchronous operation is only collected: it runs, fused with its
  // neighbours, when the collector's owner issues the batches.
  if (auto* collector = comm::Collector::of(*this)) {
    return collector->add(std::move(op));
  }
  Lane& lane = impl_->lane(setup_, rank_, op);
  auto run = impl_->runner(setup_, rank_, lane, {std::move(op)});
  if (!sync) {
    return lane.worker.run_later(std::move(run));
  }
  // An observer of waits lets somebody else run while this thread waits, so the
  // operation cannot run on this thread.
  if (comm::ThreadObserver::of_waits() != nullptr) {
    auto under_way = lane.worker.run_later(std::move(run));
    under_way->wait();
    return under_way;
  }
  // On the calling thread: handing a short operation to the worker and back
  // would cost two thread switches.
  auto work = std::make_shared<Work>();
  lane.worker.run_now([&] { work->run(run); });
  work->wait();
  return work;
}

std::shared_ptr<Work> Group::issue(comm::Batch batch) {
  check_member(batch.ops.front());
  Lane& lane = impl_->lane(setup_, rank_, batch.ops.front());
  auto run = impl_->runner(setup_, rank_, lane, std::move(batch.ops));
  return lane.worker.run_later(
      [run = std::move(run), works = std::move(batch.works)] {
        // Each Work ends with the outcome of the whole batch; the last line
        // throws the error on, to the Work that run_later() returns.
        Work whole;
        whole.run(run);
        for (const auto& work : works) {
          work->run([&] { whole.wait(); });
        }
        whole.wait();
      });
}

const comm::TrafficMeter& Group::traffic() const {
  return impl_->traffic;
}

void Group::drain() {
  // run_now() begins when all that was issued before has ended.
  impl_->collectives.worker.run_now([] {});
}

void Group::run(
    const std::string& name,
    const std::function<void(Backend&, Deadline)>& collective) {
  ARGOSY_CHECK(
      is_member(),
      "[comm.{}] rank {} is no member of group {}",
      name,
      impl_->global.number,
      id());
  Lane& lane = impl_->collectives;
  lane.worker.run_now([&] {
    const Deadline deadline = Deadline::after(setup_.timeout);
    collective(lane.link->get(deadline), deadline);
  });
}

std::string Group::backend_name() {
  std::string name;
  run("get_backend",
      [&](Backend& backend, Deadline) { name = backend.name(); });
  return name;
}

void Group::abort(const std::string& reason) {
  impl_->collectives.link->abort(reason);
  const std::lock_guard lock(impl_->mutex);
  // Both lanes of a pair share one link.
  for (auto& [peer, pair] : impl_->pairs) {
    pair.outgoing.link->abort(reason);
  }
}

} // namespace argosy
