#include "argosy/comm/group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "argosy/comm/backend.h"
#include "argosy/comm/c10d/c10d_backend.h"
#include "argosy/comm/memory/memory_backend.h"
#include "argosy/comm/store_texts.h"
#include "argosy/comm/work.h"
#include "argosy/comm/worker.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

using comm::Backend;

const std::vector<std::string> kBackends = {"auto", "inproc", "shm", "c10d"};

void check_backend_name(const std::string& name) {
  ARGOSY_CHECK(
      std::find(kBackends.begin(), kBackends.end(), name) != kBackends.end(),
      "[comm.new_group] no backend \"",
      name,
      "\", expected one of ",
      join(kBackends, ", "));
}

} // namespace

struct Group::Impl {
  // Of the world, which the group may outlive in a user's hands.
  const c10::intrusive_ptr<c10d::Store> store;
  const int global_rank;

  std::mutex mutex;
  std::unique_ptr<Backend> backend; // guarded by mutex; set once
  std::string abort_reason;         // guarded by mutex
  comm::Worker worker;

  explicit Impl(World& world)
      : store(world.store()), global_rank(world.rank()) {}
};

Group::Group(World& world, Setup setup)
    : setup_(std::move(setup)), impl_(new Impl(world)) {
  rank_ = get_group_rank(world.rank());
}

Group::~Group() = default;

std::string Group::name() const {
  return str("_default_pg", setup_.id);
}

int Group::get_group_rank(int global_rank) const {
  const auto found =
      std::lower_bound(setup_.ranks.begin(), setup_.ranks.end(), global_rank);
  if (found == setup_.ranks.end() || *found != global_rank) {
    return -1;
  }
  return static_cast<int>(found - setup_.ranks.begin());
}

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

std::unique_ptr<Backend> connect_memory(
    const StorePtr& store, const Group& group) {
  return comm::memory::make_memory_backend(
      str(group.id()),
      group.rank(),
      group.nranks(),
      comm::gather_through(
          store,
          str("group/", group.id(), "/memory"),
          group.rank(),
          group.nranks()));
}

std::unique_ptr<Backend> connect_c10d(
    const StorePtr& store, const Group& group, bool one_host) {
  return comm::make_c10d_gloo_backend(
      str(group.id()),
      c10::make_intrusive<c10d::PrefixStore>(
          str("group/", group.id(), "/c10d"), store),
      group.rank(),
      group.nranks(),
      one_host,
      Deadline::after(group.timeout()));
}

// Shared memory where the members can really see each other's; all of them come
// to the same answer.
std::unique_ptr<Backend> connect_best(
    const StorePtr& store, const Group& group) {
  try {
    return connect_memory(store, group);
  } catch (const SystemError& error) {
    log::info("[comm.connect] group ", group.id(), ": ", error.what());
    return connect_c10d(store, group, false);
  }
}

std::unique_ptr<Backend> connect(
    const StorePtr& store, const Group& group, const std::string& wanted) {
  if (wanted == "auto") {
    return connect_best(store, group);
  }
  if (wanted == "c10d") {
    return connect_c10d(store, group, true);
  }
  auto backend = connect_memory(store, group);
  ARGOSY_CHECK(
      wanted == "shm" || backend->name() == wanted,
      "[comm.connect] group ",
      group.id(),
      " was asked to be ",
      wanted,
      ", but its ranks are not "
      "threads of one process");
  return backend;
}

} // namespace

std::shared_ptr<Work> Group::issue(
    const char* op, Operation operation, bool sync) {
  ARGOSY_CHECK(
      is_member(),
      "[comm.",
      op,
      "] rank ",
      impl_->global_rank,
      " is no member of group ",
      id());
  auto run = [this, operation = std::move(operation)] {
    {
      const std::lock_guard lock(impl_->mutex);
      if (!impl_->abort_reason.empty()) {
        throw PeerLost(
            str("[comm] group ", id(), " was aborted: ", impl_->abort_reason));
      }
      if (!impl_->backend) {
        impl_->backend = connect(impl_->store, *this, setup_.backend);
      }
    }
    operation(*impl_->backend, Deadline::after(setup_.timeout));
  };
  if (!sync) {
    return impl_->worker.run_later(std::move(run));
  }
  auto work = std::make_shared<Work>();
  impl_->worker.run_now([&] { work->run(run); });
  work->wait();
  return work;
}

std::string Group::backend_name() {
  std::string name;
  issue(
      "get_backend",
      [&](Backend& backend, Deadline) { name = backend.name(); },
      true);
  return name;
}

void Group::abort(const std::string& reason) {
  // Not under the lock of a connection that is being made: the store's own
  // abort ends that.
  const std::unique_lock lock(impl_->mutex, std::try_to_lock);
  if (lock.owns_lock()) {
    impl_->abort_reason = reason;
    if (impl_->backend) {
      impl_->backend->abort(reason);
    }
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
    make(std::move(all), "auto", world.timeout());
  }

  std::shared_ptr<Group> make(
      std::vector<int> ranks,
      const std::string& backend,
      std::chrono::milliseconds timeout) {
    const std::lock_guard lock(mutex_);
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

  std::shared_ptr<Group> find(int id) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(id);
    return found == groups_.end() ? nullptr : found->second;
  }

  bool forget(const Group& group) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group.id());
    if (found == groups_.end() || found->second.get() != &group) {
      return false;
    }
    groups_.erase(found);
    return true;
  }

  void abort(const std::string& reason) {
    std::map<int, std::shared_ptr<Group>> groups;
    {
      const std::lock_guard lock(mutex_);
      groups = groups_;
    }
    for (const auto& [id, group] : groups) {
      group->abort(reason);
    }
  }

 private:
  World& world_;
  std::mutex mutex_;
  int next_id_ = 0;                              // guarded by mutex_
  std::map<int, std::shared_ptr<Group>> groups_; // guarded by mutex_
};

std::shared_ptr<Groups> groups_of(const std::shared_ptr<World>& world) {
  return world->attached<Groups>([&] {
    auto groups = std::make_shared<Groups>(*world);
    world->on_abort(
        [weak = std::weak_ptr<Groups>(groups)](const std::string& reason) {
          if (const auto alive = weak.lock()) {
            alive->abort(reason);
          }
        });
    return groups;
  });
}

} // namespace

std::shared_ptr<Group> new_group(
    std::vector<int> ranks,
    const std::string& backend,
    std::optional<std::chrono::milliseconds> timeout) {
  const auto world = require_world("comm.new_group");
  check_backend_name(backend);
  if (ranks.empty()) {
    ranks = get_group(0)->ranks();
  }
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ARGOSY_CHECK(
        ranks[i] >= 0 && ranks[i] < world->size(),
        "[comm.new_group] rank ",
        ranks[i],
        " is not in [0, ",
        world->size(),
        ")");
    ARGOSY_CHECK(
        i == 0 || ranks[i] != ranks[i - 1],
        "[comm.new_group] rank ",
        ranks[i],
        " is named twice");
  }
  return groups_of(world)->make(
      std::move(ranks), backend, timeout.value_or(world->timeout()));
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
      "[comm.destroy_process_group] group ",
      group->id(),
      " is not one of this world");
}

std::string get_backend(const std::shared_ptr<Group>& group) {
  return (group ? group : get_group(0))->backend_name();
}

} // namespace argosy
