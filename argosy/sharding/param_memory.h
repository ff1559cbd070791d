#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/sharding/buffer_pool.h"
#include "argosy/sharding/flat.h"
#include "argosy/sharding/shard_memory.h"
#include "argosy/sharding/watched_memory.h"

namespace argosy::sharding {

// Where the values of parameters are. Units that are resident are whole on each
// rank, and gathered anew after a step. Of the others a rank has its part; the
// whole is gathered when an op is about to use it, or while the unit before it
// is used, when forward, or backward, goes as it did the last time; it goes
// when another is used. All ranks use units in the same order.
class ParamMemory final : public MemoryWatch,
                          public std::enable_shared_from_this<ParamMemory> {
 public:
  // Moves the parameters, which have the same values on all ranks.
  static std::shared_ptr<ParamMemory> make(
      const std::vector<UnitPlan>& plan,
      const std::vector<at::Tensor>& params,
      GroupPtr group,
      std::shared_ptr<BufferPool> pool,
      std::shared_ptr<ShardMemory> shards);
  // Waits for what is being gathered.
  ~ParamMemory() override;

  std::vector<Unit>& units() { return units_; }
  const GroupPtr& group() const { return group_; }

  // Collective: makes resident units whole after parts have changed.
  void take_step();

  // Collective, from where all ranks are at the same point: all units are whole
  // until end_whole(). Not to be nested.
  void begin_whole();
  void end_whole();

  // A unit is not needed for now: its gradients are complete.
  void release(std::size_t unit);
  // Nothing is: parts are about to change.
  void release_all();
  // A forward begins.
  void begin_pass();

  void before_use(const std::vector<std::size_t>& units) override;
  void after_write(std::size_t unit) override;

 private:
  struct State {
    std::vector<WorkPtr> gathering;
    bool is_whole = false;
  };

  ParamMemory(
      GroupPtr group,
      std::shared_ptr<BufferPool> pool,
      std::shared_ptr<ShardMemory> shards);
  Flat make_flat(
      const FlatPlan& plan,
      const std::vector<at::Tensor>& params,
      bool resident);
  void cut(Flat& flat, std::size_t unit);
  void start(std::size_t unit);
  void finish(std::size_t unit);
  std::optional<std::size_t> note_uses(const std::vector<std::size_t>& used);

  const GroupPtr group_;
  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<ShardMemory> shards_; // of units that are not resident
  std::vector<Unit> units_;
  std::vector<State> states_; // by unit

  // The units that forward and backward used the last time, in order, and
  // those of the pass that is under way.
  std::array<std::vector<std::size_t>, 2> passes_;
  std::vector<std::size_t> pass_;
  bool is_backward_ = false;
  bool keeps_all_ = false;
};

} // namespace argosy::sharding
