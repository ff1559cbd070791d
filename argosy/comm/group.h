#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"

namespace argosy {

class Work;
class World;

namespace comm {
class Backend;
struct Batch;
struct Op;
class TrafficMeter;
} // namespace comm

// A group of ranks that communicate. Every rank of the world has the object,
// whether it is a member or not. The first operation connects the members.
//
// A group runs its collectives in the order in which they were issued; all
// members must issue the same ones in the same order. Messages between two
// members run beside the collectives, in order for each direction, and involve
// no other member. Thread-safe.
class Group {
 public:
  struct Setup {
    int id = 0;
    std::vector<int> ranks; // global, ascending
    std::string backend = "auto";
    std::chrono::milliseconds timeout{};
    std::string key{}; // where the members meet in the store; empty: the id
  };

  Group(World& world, Setup setup);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int id() const { return setup_.id; }
  std::string name() const;

  // This rank's rank in the group; -1 if it is not a member.
  int rank() const { return rank_; }
  int nranks() const { return static_cast<int>(setup_.ranks.size()); }
  bool is_member() const { return rank_ >= 0; }
  const std::vector<int>& ranks() const { return setup_.ranks; }

  // The rank in the group of a global rank, or -1.
  int get_group_rank(int global_rank) const;

  // The name of the backend that the group uses. Connects the members if they
  // are not connected yet, so all of them must call it.
  std::string backend_name();

  std::chrono::milliseconds timeout() const { return setup_.timeout; }

  // Counts what this rank has issued so far.
  const comm::TrafficMeter& traffic() const;

  // Ends all operations of all members with PeerLost, and all later ones.
  void abort(const std::string& reason);

  // Issues an operation. With `sync`, blocks until it is done and throws what
  // it throws. Throws InvalidArgument if this rank is not a member.
  std::shared_ptr<Work> issue(comm::Op op, bool sync);

  // Issues operations that run as one; returns at once.
  std::shared_ptr<Work> issue(comm::Batch batch);

  // Runs a function on the backend when all collectives before it are done, and
  // blocks until it returns. All members must call it. Throws what the function
  // throws, and InvalidArgument if this rank is not a member.
  void run(
      const std::string& name,
      const std::function<void(comm::Backend&, Deadline)>& collective);

  // Blocks until all collectives that were issued have ended, well or not.
  void drain();

 private:
  struct Impl;

  void check_member(const comm::Op& op) const;

  const Setup setup_;
  int rank_ = -1;
  std::unique_ptr<Impl> impl_;
};

// Makes a group of some ranks of the world (by default all), in the order of
// their global ranks. All ranks of the world must call it, members or not, in
// the same order and with the same arguments; it does not wait for them. Throws
// InvalidArgument for ranks that are out of range or named twice, and when an
// earlier caller gave another list or backend: the message has both. Ranks that
// had called before get that error from their first operation on the group.
std::shared_ptr<Group> new_group(
    std::vector<int> ranks = {},
    const std::string& backend = "auto",
    std::optional<std::chrono::milliseconds> timeout = std::nullopt);

// Returns the group of these ranks, and makes it on the first call: callers
// that ask for the same ranks share one group. Only members need to call it, in
// any order. For all ranks of the world it is group 0. Throws as new_group()
// does.
std::shared_ptr<Group> shared_group(
    const std::shared_ptr<World>& world, std::vector<int> ranks);

// Group 0 has all ranks. Throws InvalidArgument if there is no group `id`.
std::shared_ptr<Group> get_group(int id = 0);

// This rank's rank in a group and the group's size; -1 on ranks that are no
// members. Null: those of the world.
int get_rank(const std::shared_ptr<Group>& group);
int get_world_size(const std::shared_ptr<Group>& group);

// Removes a group from the calling thread's world.
void destroy_process_group(const std::shared_ptr<Group>& group);

std::string get_backend(const std::shared_ptr<Group>& group = nullptr);

} // namespace argosy
