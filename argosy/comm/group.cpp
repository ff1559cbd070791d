#include "argosy/comm/group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

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
#include "argosy/common/text.h"
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
      : make_(std::move(make)), members_(std::move(members)) {}

  Backend& get(Deadline deadline) {
    // Both lanes of a pair may come here at once: the second one waits. After
    // a failed attempt, the next operation tries again.
    const std::lock_guard lock(mutex_);
    if (!abort_reason_.empty()) {
      throw PeerLost(str_format(
          "[comm] group {} was aborted: {}", members_.group, abort_reason_));
    }
    if (!backend_) {
      members_.deadline = deadline;
      backend_ = make_(members_);
    }
    return *backend_;
  }

  void abort(const std::string& reason) {
    // Not under the lock of a connection that is being made: the store's own
    // abort ends that.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) {
      abort_reason_ = reason;
      if (backend_) {
        backend_->abort(reason);
      }
    }
  }

 private:
  const comm::MakeBackend make_;
  std::mutex mutex_;
  comm::Members members_;            // guarded by mutex_
  std::unique_ptr<Backend> backend_; // guarded by mutex_; set once
  std::string abort_reason_;         // guarded by mutex_
};

// What carries operations out, one at a time: a connection, and a thread for
// what is not synchronous.
struct Lane {
  // In this order: destruction joins the worker's thread while the connection
  // that its operation uses is still there.
  std::shared_ptr<Link> link;
  Worker worker;

  explicit Lane(std::shared_ptr<Link> its_link) : link(std::move(its_link)) {}
};

// Two members: a lane for each direction, so that neither waits for the other.
struct Pair {
  Lane outgoing;
  Lane incoming;

  explicit Pair(const std::shared_ptr<Link>& link)
      : outgoing(link), incoming(link) {}
};

} // namespace

struct Group::Impl {
  // Of the world, which the group may outlive in a user's hands.
  const StorePtr store;
  const int global_rank;
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
        global_rank(world.rank()),
        make(comm::find_backend(world, setup.backend)),
        recorder(comm::black_box_of(world), setup.id, setup.ranks),
        collectives(link(setup, key_of(setup), rank, setup.ranks)) {}

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
            .store = c10::make_intrusive<c10d::PrefixStore>(
                str("group/", name), store),
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
                 setup.ranks[static_cast<std::size_t>(high)]}))
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

Group::~Group() = default;

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
      impl_->global_rank,
      id());
}

// Called by user threads. Operations of a lane run in the order of the calls,
// which must be the same on all ranks for collectives.
std::shared_ptr<Work> Group::issue(Op op, bool sync) {
  check_member(op);
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
      impl_->global_rank,
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

namespace {

// The groups of a world, as one of its ranks numbers them.
class Groups {
 public:
  explicit Groups(World& world) : world_(world) {
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    for (int rank = 0; rank < world.size(); ++rank) {
      all[static_cast<std::size_t>(rank)] = rank;
    }
    // The first one gets number 0, which get_group(0) relies on.
    add(std::move(all), "auto", world.timeout());
  }

  std::shared_ptr<Group> make(
      std::vector<int> ranks,
      const std::string& backend,
      std::chrono::milliseconds timeout) {
    const std::lock_guard lock(mutex_);
    return add(std::move(ranks), backend, timeout);
  }

  // Members may ask for their groups in different orders: they meet by ranks,
  // and the number is only a name in reports.
  std::shared_ptr<Group> share(const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex_);
    auto& group = shared_[ranks];
    if (!group) {
      const std::string key = str("of ", ranges_text(ranks));
      group = std::make_shared<Group>(
          world_,
          Group::Setup{
              // Negative, unlike counted numbers; the shift leaves 30 bits.
              .id = -1 - static_cast<int>(std::hash<std::string>{}(key) >> 34),
              .ranks = ranks,
              .timeout = world_.timeout(),
              .key = key});
    }
    return group;
  }

  std::shared_ptr<Group> find(int id) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(id);
    return found == groups_.end() ? nullptr : found->second;
  }

  bool forget(const Group& group) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group.id());
    // By address as well: a group of an earlier world may have the same number.
    if (found == groups_.end() || found->second.get() != &group) {
      return false;
    }
    groups_.erase(found);
    return true;
  }

  void abort(const std::string& reason) {
    // Copied out: a group's abort may take long, and must not hold the lock.
    std::vector<std::shared_ptr<Group>> groups;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, group] : groups_) {
        groups.push_back(group);
      }
      for (const auto& [ranks, group] : shared_) {
        groups.push_back(group);
      }
    }
    for (const auto& group : groups) {
      group->abort(reason);
    }
  }

 private:
  // With mutex_ held, or where nobody else has the object yet.
  std::shared_ptr<Group> add(
      std::vector<int> ranks,
      const std::string& backend,
      std::chrono::milliseconds timeout) {
    // All ranks must make their groups in the same order, members or not: the
    // number is the name under which the members meet.
    const int id = next_id_++;
    groups_[id] = std::make_shared<Group>(
        world_,
        Group::Setup{
            .id = id,
            .ranks = std::move(ranks),
            .backend = backend,
            .timeout = timeout});
    return groups_[id];
  }

  World& world_;
  std::mutex mutex_;
  int next_id_ = 0;                              // guarded by mutex_
  std::map<int, std::shared_ptr<Group>> groups_; // guarded by mutex_
  // Guarded by mutex_.
  std::map<std::vector<int>, std::shared_ptr<Group>> shared_;
};

std::shared_ptr<Groups> groups_of(const std::shared_ptr<World>& world) {
  return world->attached<Groups>([&] {
    auto groups = std::make_shared<Groups>(*world);
    world->on_abort(
        // Weak: the world owns both the callback and the groups.
        [weak = std::weak_ptr<Groups>(groups)](const std::string& reason) {
          if (const auto alive = weak.lock()) {
            alive->abort(reason);
          }
        });
    return groups;
  });
}

} // namespace

namespace {

// Brings them into order.
void check_ranks(std::vector<int>& ranks, const World& world) {
  // All members must number themselves alike, whatever order each one gave;
  // get_group_rank() searches by bisection.
  std::ranges::sort(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ARGOSY_CHECK(
        ranks[i] >= 0 && ranks[i] < world.size(),
        "[comm.new_group] rank {} is not in [0, {})",
        ranks[i],
        world.size());
    ARGOSY_CHECK(
        i == 0 || ranks[i] != ranks[i - 1],
        "[comm.new_group] rank {} is named twice",
        ranks[i]);
  }
}

} // namespace

std::shared_ptr<Group> new_group(
    std::vector<int> ranks,
    const std::string& backend,
    std::optional<std::chrono::milliseconds> timeout) {
  const auto world = require_world("comm.new_group");
  comm::find_backend(*world, backend); // throws for names that are unknown
  if (ranks.empty()) {
    ranks = get_group(0)->ranks();
  }
  check_ranks(ranks, *world);
  return groups_of(world)->make(
      std::move(ranks), backend, timeout.value_or(world->timeout()));
}

std::shared_ptr<Group> shared_group(
    const std::shared_ptr<World>& world, std::vector<int> ranks) {
  ARGOSY_CHECK(world != nullptr, "[comm.shared_group] no world given");
  check_ranks(ranks, *world);
  // All ranks, without duplicates: group 0 has the connections already.
  if (static_cast<int>(ranks.size()) == world->size()) {
    return groups_of(world)->find(0);
  }
  return groups_of(world)->share(ranks);
}

std::shared_ptr<Group> get_group(int id) {
  const auto world = require_world("comm.get_group");
  auto group = groups_of(world)->find(id);
  ARGOSY_CHECK(group != nullptr, "[comm.get_group] there is no group ", id);
  return group;
}

void destroy_process_group(const std::shared_ptr<Group>& group) {
  ARGOSY_CHECK(group != nullptr, "[comm.destroy_process_group] no group given");
  const auto world = require_world("comm.destroy_process_group");
  ARGOSY_CHECK(
      groups_of(world)->forget(*group),
      "[comm.destroy_process_group] group {} is not one of this world",
      group->id());
}

std::string get_backend(const std::shared_ptr<Group>& group) {
  return (group ? group : get_group(0))->backend_name();
}

} // namespace argosy
