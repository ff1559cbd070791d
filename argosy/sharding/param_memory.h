#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/sharding/buffer_pool.h"
#include "argosy/sharding/shard_memory.h"
#include "argosy/sharding/unit.h"
#include "argosy/sharding/watched_memory.h"

namespace argosy::sharding {

// Owns the values of the parameters. Resident units are whole on every rank and
// gathered again after each step. Of other units a rank keeps its shard. Such a
// unit is gathered when an op is about to use it, and released when another
// unit is used. If this forward (or backward) uses units in the order of the
// last one, the next unit is gathered while the current one is in use. All
// ranks must use units in the same order.
class ParamMemory final : public MemoryWatch,
                          public std::enable_shared_from_this<ParamMemory> {
 public:
  using Prepare = std::function<void(std::size_t parameter)>;

  // Moves the parameters into units, one after the other. Calls prepare(i)
  // before it takes the values of parameter i, which must then be the same on
  // all ranks.
  static std::shared_ptr<ParamMemory> make(
      const std::vector<UnitPlan>& plan,
      const std::vector<at::Tensor>& params,
      GroupPtr group,
      std::shared_ptr<BufferPool> pool,
      std::shared_ptr<ShardMemory> shards,
      const Prepare& prepare);
  // Waits for gathers under way.
  ~ParamMemory() override;

  std::vector<Unit>& units() { return units_; }
  const GroupPtr& group() const { return group_; }

  // torch::load() gives parameters of resident units new memory: brings the
  // values to where the shards are. If a shape has changed, takes all values
  // from before and throws InvalidArgument. To be called before parameters or
  // shards are used. Sends nothing.
  void adopt_values();

  // Collective: gathers resident units after shards have changed.
  void take_step();

  // Collective: all units are whole until end_whole(). Calls must not nest.
  void begin_whole();
  void end_whole();

  // Releases the whole of a unit that is not needed for now.
  void release(std::size_t unit);
  // Releases all units, because shards are about to change.
  void release_all();
  // Call it when a forward begins.
  void begin_pass();

  void before_use(const std::vector<std::size_t>& units) override;
  void after_write(std::size_t unit) override;
  void take_value(
      std::size_t unit,
      const at::Tensor& tensor,
      const at::Tensor& value) override;
  void before_save(const std::string& name) const override;

 private:
  struct State {
    std::vector<WorkPtr> gathering;
    bool is_whole = false;
  };

  ParamMemory(
      GroupPtr group,
      std::shared_ptr<BufferPool> pool,
      std::shared_ptr<ShardMemory> shards);
  ShardedBucket make_bucket(
      const Bucket& plan,
      const std::vector<at::Tensor>& params,
      bool resident,
      const Prepare& prepare);
  void cut(ShardedBucket& bucket, std::size_t unit);
  void start(std::size_t unit);
  void finish(std::size_t unit);
  std::optional<std::size_t> note_uses(const std::vector<std::size_t>& used);

  const GroupPtr group_;
  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<ShardMemory> shards_; // of units that are not resident
  std::vector<Unit> units_;
  std::vector<State> states_; // by unit

  // The units that the last forward and the last backward used, in order, and
  // those of the current pass.
  std::array<std::vector<std::size_t>, 2> passes_;
  std::vector<std::size_t> pass_;
  bool is_backward_ = false;
  bool keeps_all_ = false;
};

} // namespace argosy::sharding
