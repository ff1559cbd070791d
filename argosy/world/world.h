#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/world/launch_info.h"

namespace c10d {
class Store;
}

namespace argosy {

// The ranks of a job, seen from one of them: its rank, the number of ranks, and
// the store that they share.
//
// A world belongs to a rank, and a rank is a thread or a process. Nothing is
// process-global, so one process may hold many worlds. init_parallel_env()
// makes a world and binds it to the calling thread; WorldScope binds it to
// further threads of the same rank. Thread-safe.
class World {
 public:
  World(
      LaunchInfo info,
      c10::intrusive_ptr<c10d::Store> store,
      std::chrono::milliseconds timeout,
      std::shared_ptr<void> companion = nullptr);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  int local_rank() const { return info_.local_rank; }
  int local_size() const { return info_.local_size; }
  Role role() const { return info_.role; }
  const LaunchInfo& info() const { return info_; }

  // The store of this world's ranks only: keys carry a prefix for the job and
  // the attempt.
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  // The default limit of waits, and a deadline that far from now.
  std::chrono::milliseconds timeout() const { return timeout_; }
  Deadline deadline() const { return Deadline::after(timeout_); }

  // State that another module keeps for this rank: one object per type, created
  // by the first caller with `make`. It lives as long as the world.
  template <typename T, typename Make>
  std::shared_ptr<T> attached(const Make& make) {
    return std::static_pointer_cast<T>(
        attach(typeid(T), [&]() -> std::shared_ptr<void> { return make(); }));
  }

  // Call it when this rank cannot continue: runs the on_abort() actions, so
  // that nobody waits for it. spawn() calls it for thread ranks that throw; for
  // processes, their death has the same effect. Thread-safe.
  void abort(const std::string& reason);

  // `action` must not throw; it runs at most once.
  void on_abort(std::function<void(const std::string& reason)> action);

  // Tells the others that this rank no longer needs the store. The rank that
  // serves the store blocks until all others have said so, but not beyond
  // `deadline`. Only the first call has an effect.
  void leave(Deadline deadline);

 private:
  std::shared_ptr<void> attach(
      const std::type_info& type,
      const std::function<std::shared_ptr<void>()>& make);

  const LaunchInfo info_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<void> companion_; // kept alive with the world
  std::atomic<bool> left_{false};

  // Recursive: making an attachment may need another.
  std::recursive_mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::function<void(const std::string&)>> on_abort_;
  std::map<std::type_index, std::shared_ptr<void>> attachments_;
};

// Returns the calling thread's world, or null.
std::shared_ptr<World> current_world();

// Returns the calling thread's world. If there is none, throws InvalidArgument
// whose message starts with `op`.
std::shared_ptr<World> require_world(const char* op);

// Binds a world to the calling thread while in scope, so that a thread started
// by a rank acts as that rank.
class WorldScope {
 public:
  explicit WorldScope(std::shared_ptr<World> world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;
  WorldScope& operator=(const WorldScope&) = delete;

 private:
  std::shared_ptr<World> previous_;
};

} // namespace argosy
