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

// The ranks of a job, seen from one of them: who am I, how many are we, and the
// store in which all of us meet.
//
// A world belongs to a rank, and a rank is a thread or a process: nothing here
// is global, so one process may hold many worlds. init_parallel_env() makes one
// and binds it to the calling thread; WorldScope binds it to further threads of
// the same rank. Thread-safe.
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

  // Shared by all ranks of this world and by nobody else: its keys carry a
  // prefix for the job and the attempt.
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

  // The limit of waits that are given no other, and a deadline of that limit
  // from now.
  std::chrono::milliseconds timeout() const { return timeout_; }
  Deadline deadline() const { return Deadline::after(timeout_); }

  // What another module keeps for this rank: one object of each type, made by
  // the first caller. It lives as long as the world.
  template <typename T, typename Make>
  std::shared_ptr<T> attached(const Make& make) {
    return std::static_pointer_cast<T>(
        attach(typeid(T), [&]() -> std::shared_ptr<void> { return make(); }));
  }

  // This rank cannot go on: runs what on_abort() registered, so that nobody
  // waits for it. spawn() calls it for thread ranks that throw; for processes
  // their death says as much. Thread-safe.
  void abort(const std::string& reason);

  // `action` must not throw, and is called at most once.
  void on_abort(std::function<void(const std::string& reason)> action);

  // Tells the others that this rank needs the store no more. The rank that
  // serves the store waits for all others to say so, at most until `deadline`,
  // and then goes whether they did or not. Only the first call does something.
  void leave(Deadline deadline);

 private:
  std::shared_ptr<void> attach(
      const std::type_info& type,
      const std::function<std::shared_ptr<void>()>& make);

  const LaunchInfo info_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<void> companion_; // lives as long as the world
  std::atomic<bool> left_{false};

  std::recursive_mutex mutex_; // making one attachment may need another
  // Guarded by mutex_.
  std::vector<std::function<void(const std::string&)>> on_abort_;
  std::map<std::type_index, std::shared_ptr<void>> attachments_;
};

// The calling thread's world, or null.
std::shared_ptr<World> current_world();

// The calling thread's world. Throws InvalidArgument, tagged with `op`, when
// there is none.
std::shared_ptr<World> require_world(const char* op);

// Binds a world to the calling thread while in scope, so that a thread that a
// rank started acts as that rank.
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
