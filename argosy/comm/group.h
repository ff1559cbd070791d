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

// Ranks that communicate with one another. Every rank of the world has the
// object, members or not. Connections are made by the first operation.
//
// Collectives of one group are carried out in the order in which they were
// issued; all members must issue the same ones in the same order. Messages
// between two members go beside them: those of one direction in order, and no
// other member need take part. Thread-safe.
class Group {
 public:
  struct Setup {
    int id = 0;
    std::vector<int> ranks; // global, ascending
    std::string backend = "auto";
    std::chrono::milliseconds timeout{};
    std::string key{}; // under which the members meet; empty: the id
  };

  Group(World& world, Setup setup);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int id() const { return setup_.id; }
  std::string name() const;

  // This rank's place in the group; -1 when it is no member.
  int rank() const { return rank_; }
  int nranks() const { return static_cast<int>(setup_.ranks.size()); }
  bool is_member() const { return rank_ >= 0; }
  const std::vector<int>& ranks() const { return setup_.ranks; }

  // The place of a global rank in the group, or -1.
  int get_group_rank(int global_rank) const;

  // Name of what carries the operations out; connects if need be.
  std::string backend_name();

  std::chrono::milliseconds timeout() const { return setup_.timeout; }

  // What this rank has issued so far.
  const comm::TrafficMeter& traffic() const;

  // Ends all operations of all members with PeerLost.
  void abort(const std::string& reason);

  // Issues an operation. With `sync`, returns when it is done, and throws what
  // it throws. Throws InvalidArgument when this rank is no member.
  std::shared_ptr<Work> issue(comm::Op op, bool sync);

  // Issues operations that are carried out as one; returns at once.
  std::shared_ptr<Work> issue(comm::Batch batch);

  // Runs a collective that is no Op, in its turn, and waits for it. Throws what
  // it throws, and InvalidArgument when this rank is no member.
  void run(
      const std::string& name,
      const std::function<void(comm::Backend&, Deadline)>& collective);

  // Returns when all collectives that were issued have ended, well or not.
  void drain();

 private:
  struct Impl;

  void check_member(const comm::Op& op) const;

  const Setup setup_;
  int rank_ = -1;
  std::unique_ptr<Impl> impl_;
};

// A group of some ranks of the world (none named: all), with the rank order of
// the world. All ranks of the world must call it, in the same order, members or
// not; it does not communicate. Throws InvalidArgument for ranks that are out
// of range or named twice.
std::shared_ptr<Group> new_group(
    std::vector<int> ranks = {},
    const std::string& backend = "auto",
    std::optional<std::chrono::milliseconds> timeout = std::nullopt);

// The group of these ranks that all who ask for it share; each member gets it
// by its first call, and nobody else need call. With all ranks of the world,
// the group 0. Throws as new_group() does.
std::shared_ptr<Group> shared_group(
    const std::shared_ptr<World>& world, std::vector<int> ranks);

// The group of that number; 0 is the one of all ranks. Throws InvalidArgument
// when there is none.
std::shared_ptr<Group> get_group(int id = 0);

// Lets go of one group of the calling thread's world.
void destroy_process_group(const std::shared_ptr<Group>& group);

std::string get_backend(const std::shared_ptr<Group>& group = nullptr);

} // namespace argosy
