#include "argosy/world/world.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <thread>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/rank_label.h"
#include "argosy/common/thread_context.h"
#include "argosy/world/data_ranks.h"
#include "argosy/world/notes.h"
#include "argosy/world/rendezvous.h"
#include "argosy/world/thread_binding.h"

namespace argosy {

World::World(
    LaunchInfo info,
    c10::intrusive_ptr<c10d::Store> store,
    std::chrono::milliseconds timeout,
    std::shared_ptr<void> companion)
    : info_(std::move(info)),
      store_(std::move(store)),
      timeout_(timeout),
      companion_(std::move(companion)) {}

World::~World() = default;

// Holds the lock while it makes the object, so that two threads of a rank never
// make two.
std::shared_ptr<void> World::attach(
    const std::type_info& type,
    const std::function<std::shared_ptr<void>()>& make) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<void>& slot = attachments_[type];
  if (!slot) {
    slot = make();
  }
  return slot;
}

void World::on_abort(std::function<void(const std::string&)> action) {
  const std::lock_guard lock(mutex_);
  on_abort_.push_back(std::move(action));
}

void World::abort(const std::string& reason) {
  std::vector<std::function<void(const std::string&)>> actions;
  {
    const std::lock_guard lock(mutex_);
    // Each action runs once, even if several threads abort.
    actions.swap(on_abort_);
  }
  // Outside the lock, so that an action may wait for other threads that use
  // this world.
  for (const auto& action : actions) {
    action(reason);
  }
}

void World::leave(Deadline deadline) {
  // Once: the counter "left" must count each rank once.
  if (left_.exchange(true) || size() == 1) {
    return;
  }
  try {
    store_->set(departure_key(rank()), {'1'});
    // The rank that serves the store stays until all have left: its end would
    // break calls of the others.
    std::int64_t gone = store_->add("left", 1);
    while (info_.serves_store && gone < size() && !deadline.expired()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      gone = store_->add("left", 0);
    }
  } catch (const std::exception& error) {
    // The server of the store is already gone, so nobody needs our notice.
    log::debug("[world.leave] ", error.what());
  }
}

namespace {

class StoreNotes final : public Notes {
 public:
  explicit StoreNotes(const World& world)
      : Notes(world.rank(), world.size()), store_(world.store()) {}

  std::string claim(const std::string& key, const std::string& text) override {
    const auto there =
        store_->compareSet(key_of(key), {}, {text.begin(), text.end()});
    return {there.begin(), there.end()};
  }

  std::optional<std::string> find(const std::string& key) override {
    if (!store_->check({key_of(key)})) {
      return std::nullopt;
    }
    const auto there = store_->get(key_of(key));
    return std::string(there.begin(), there.end());
  }

 private:
  static std::string key_of(const std::string& key) {
    return str("notes/", key);
  }

  const c10::intrusive_ptr<c10d::Store> store_;
};

std::shared_ptr<Notes> notes_of(World& world) {
  if (world.size() == 1) {
    return nullptr; // there may be no store, and there is nobody to tell
  }
  return world.attached<Notes>(
      [&] { return std::make_shared<StoreNotes>(world); });
}

} // namespace

ThreadBinding::~ThreadBinding() = default;

ThreadBinding& thread_binding() {
  return of_thread<ThreadBinding>();
}

// The label makes log lines and errors of this thread name its rank.
void bind_world(std::shared_ptr<World> world) {
  if (world) {
    set_rank_label(world->rank(), world->size());
    bind_data_ranks(data_ranks_of(*world));
  } else {
    set_rank_label(0, 0);
    bind_data_ranks(nullptr);
  }
  bind_notes(world ? notes_of(*world) : nullptr);
  thread_binding().world = std::move(world);
}

std::shared_ptr<DataRanksOfWorld> data_ranks_of(World& world) {
  return world.attached<DataRanksOfWorld>([&] {
    return std::make_shared<DataRanksOfWorld>(
        DataRanks{world.rank(), world.size()});
  });
}

std::shared_ptr<World> current_world() {
  return thread_binding().world;
}

std::shared_ptr<World> require_world(const char* op) {
  auto world = current_world();
  ARGOSY_CHECK(
      world != nullptr,
      "[{}] this thread belongs to no world: call init_parallel_env() in it "
      "first, or bind its rank's world with WorldScope",
      op);
  return world;
}

WorldScope::WorldScope(std::shared_ptr<World> world)
    : previous_(current_world()) {
  ARGOSY_CHECK(world != nullptr, "[world.scope] the world is null");
  bind_world(std::move(world));
}

WorldScope::~WorldScope() {
  bind_world(std::move(previous_));
}

} // namespace argosy
