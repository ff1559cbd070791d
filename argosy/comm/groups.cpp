#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "argosy/comm/backend/limited_call.h"
#include "argosy/comm/connect.h"
#include "argosy/comm/group.h"
#include "argosy/comm/group_lists.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"

namespace argosy {

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

// Throws where new_group() was called, and has other ranks throw at the first
// operation, when the ranks disagree about the group.
void check_same_list(
    World& world, const Group& group, const std::string& backend) {
  if (world.size() == 1) {
    return;
  }
  const comm::GroupList list{
      .id = group.id(),
      .rank = world.rank(),
      .ranks = group.ranks(),
      .backend = backend};
  comm::limited_call(
      [store = comm::group_store(world.store(), str(group.id())), list] {
        comm::check_same_list(*store, list);
        return true;
      },
      Deadline::after(group.timeout()),
      str_format(
          "[comm.new_group] the store where group {} meets did not answer "
          "within {}",
          group.id(),
          duration_text(group.timeout())));
}

} // namespace

std::shared_ptr<Group> new_group(
    std::vector<int> ranks,
    const std::string& backend,
    std::optional<std::chrono::milliseconds> timeout) {
  const auto world = require_world("comm.new_group");
  comm::check_backend(*world, backend);
  if (ranks.empty()) {
    ranks = get_group(0)->ranks();
  }
  check_ranks(ranks, *world);
  auto group = groups_of(world)->make(
      std::move(ranks), backend, timeout.value_or(world->timeout()));
  check_same_list(*world, *group, backend);
  return group;
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

int get_rank(const std::shared_ptr<Group>& group) {
  return group ? group->rank() : get_rank();
}

int get_world_size(const std::shared_ptr<Group>& group) {
  if (!group) {
    return get_world_size();
  }
  return group->is_member() ? group->nranks() : -1;
}

std::string get_backend(const std::shared_ptr<Group>& group) {
  return (group ? group : get_group(0))->backend_name();
}

} // namespace argosy
