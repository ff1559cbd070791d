#include "argosy/comm/connect.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/backend/signed_store.h"
#include "argosy/comm/backend/store_gather_strings.h"
#include "argosy/comm/c10d/c10d_backend.h"
#include "argosy/comm/gloo/gloo_backend.h"
#include "argosy/comm/hierarchy/connect_hosts.h"
#include "argosy/comm/member_watch.h"
#include "argosy/comm/memory/memory_backend.h"
#include "argosy/comm/message/messenger.h"
#include "argosy/comm/patient_store.h"
#include "argosy/comm/watched_connect.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/world/world.h"
#include "argosy/world/world_secret.h"

namespace argosy::comm {

namespace {

using BackendPtr = std::unique_ptr<Backend>;

BackendPtr connect_memory(const Members& members) {
  return std::make_unique<memory::MemoryBackend>(
      members.group,
      members.rank,
      members.size(),
      gather_strings_through(
          members.store, "memory", members.rank, members.size()),
      memory::MemoryOptions{.numbers = members.global_ranks});
}

BackendPtr connect_threads(const Members& members) {
  auto backend = connect_memory(members);
  ARGOSY_CHECK(
      backend->name() == "inproc",
      "[comm.connect] group {} was asked to be inproc, but its ranks are not "
      "threads of one process",
      members.group);
  return backend;
}

BackendPtr connect_c10d(const Members& members) {
  return make_c10d_gloo_backend(
      members.group,
      c10::make_intrusive<c10d::PrefixStore>("c10d", signed_store(members)),
      members.rank,
      members.size(),
      members.deadline,
      members.global_ranks);
}

// Shared memory where the members can really see each other's; all of them come
// to the same answer.
BackendPtr connect_best(const Members& members, const MakeNetwork& network) {
  try {
    return connect_memory(members);
  } catch (const SystemError& error) {
    log::info("[comm.connect] group {}: {}", members.group, error.what());
    return hierarchy::connect_hosts(members, network);
  }
}

// Whether a maker may run on another thread than the operation that needs it.
// Those that a user registered may not: MPI may know one thread only.
enum class Threads { Own, Any };

// Threads of one rank may connect several groups at once over one store; see
// make_patient_store() for the deadlock that this avoids.
MakeBackend patiently(
    const MakeBackend& make,
    Threads threads,
    const WatchedStores& stores,
    const std::optional<store::Secret>& key = std::nullopt) {
  return [make, threads, stores, key](const Members& members) {
    const auto watch = std::make_shared<MemberWatch>(members, stores);
    const auto connect = [make, watch, key](const Members& those) {
      watch->come();
      // What is known already is said before the first wait.
      if (const auto error = watch->difference_of_lists()) {
        std::rethrow_exception(error);
      }
      Members patient = those;
      patient.store = make_patient_store(those.store, watch);
      patient.key = key;
      return make(patient);
    };
    return threads == Threads::Any ? connect_watched(connect, members, watch)
                                   : connect(members);
  };
}

// The backends of one rank's world, by name.
class Registry {
 public:
  Registry() {
    makers_ = {
        {"inproc", connect_threads},
        {"shm", connect_memory},
        {"gloo", gloo::make_gloo_backend},
        {"c10d", connect_c10d}};
  }

  void add(const std::string& name, MakeBackend make_backend) {
    const std::lock_guard lock(mutex_);
    ARGOSY_CHECK(
        makers_.emplace(name, std::move(make_backend)).second,
        "[comm.register_backend] there already is a backend \"{}\"",
        name);
  }

  void set_network(MakeNetwork make_network) {
    const std::lock_guard lock(mutex_);
    network_ = std::move(make_network);
    other_network_ = true;
  }

  // Whether the backend of that name consists of parts of this library alone.
  Threads threads_of(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return own_.contains(name) && (name != "auto" || !other_network_)
        ? Threads::Any
        : Threads::Own;
  }

  MakeBackend find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    if (name == "auto") {
      return [network = network_](const Members& members) {
        return connect_best(members, network);
      };
    }
    const auto found = makers_.find(name);
    return found == makers_.end() ? nullptr : found->second;
  }

  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names = {"auto"};
    for (const auto& [name, maker] : makers_) {
      names.push_back(name);
    }
    return names;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, MakeBackend> makers_; // guarded by mutex_
  MakeNetwork network_ = gloo::connect_gloo;  // guarded by mutex_
  bool other_network_ = false;                // guarded by mutex_
  const std::set<std::string> own_ = {"auto", "inproc", "shm", "gloo", "c10d"};
};

std::shared_ptr<Registry> registry_of(World& world) {
  return world.attached<Registry>([] { return std::make_shared<Registry>(); });
}

} // namespace

BackendPtr connect_auto(const Members& members) {
  const auto connect = [](const Members& patient) {
    return connect_best(patient, gloo::connect_gloo);
  };
  return patiently(connect, Threads::Any, {})(members);
}

void register_backend(
    World& world, const std::string& name, MakeBackend make_backend) {
  registry_of(world)->add(name, std::move(make_backend));
}

void set_network(World& world, MakeNetwork make_network) {
  registry_of(world)->set_network(std::move(make_network));
}

std::vector<std::string> backend_names(World& world) {
  return registry_of(world)->names();
}

void check_backend(World& world, const std::string& name) {
  ARGOSY_CHECK(
      registry_of(world)->find(name) != nullptr,
      "[comm.new_group] no backend \"{}\", expected one of {}",
      name,
      join(backend_names(world), ", "));
}

c10::intrusive_ptr<c10d::Store> group_store(
    const c10::intrusive_ptr<c10d::Store>& world,
    const std::string& group_key) {
  return c10::make_intrusive<c10d::PrefixStore>(
      str("group/", group_key), world);
}

namespace {

// Of this group in this attempt: what was signed in another is worth nothing.
std::optional<store::Secret> group_secret(
    World& world, const std::string& group_key) {
  const auto secret = secret_of(world);
  if (!secret) {
    return std::nullopt;
  }
  const LaunchInfo& info = world.info();
  return secret->derived(str(
      "argosy group ", info.run_id, "/", info.restart_count, "/", group_key));
}

} // namespace

MakeBackend find_backend(
    World& world, const std::string& name, const std::string& group_key) {
  check_backend(world, name);
  return patiently(
      registry_of(world)->find(name),
      registry_of(world)->threads_of(name),
      {.world = world.store(), .lists = group_store(world.store(), group_key)},
      group_secret(world, group_key));
}

} // namespace argosy::comm
