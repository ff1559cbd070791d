#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "argosy/pipeline/cut/split_point.h"
#include "argosy/pipeline/schedule.h"
#include "argosy/recomputation/options.h"
#include "argosy/semi_auto/shard_layer.h"
#include "argosy/semi_auto/stages.h"

// The configuration of parallelize(): plain values.
namespace argosy {

// Shards the layer's outputs: Linear by output features, Embedding by embedding
// width, convolutions by output channels.
struct ColWiseParallel {
  bool gather_output = false; // gather the output on every rank
};

// Shards the layer's inputs: Linear by input features (outputs are partial
// sums), Embedding by vocabulary.
struct RowWiseParallel {
  // Whether the input is already sharded, as ColWiseParallel leaves it. If
  // false, the layer shards its input.
  bool is_input_parallel = true;
};

// Applies a user function to the layer's input or output, to change placements.
// The output function of a Linear runs before the bias is added.
struct PrepareLayerInput {
  LayerFn fn;
};
struct PrepareLayerOutput {
  LayerFn fn;
};

// Sequence parallelism: between tensor parallel layers, each rank holds a part
// of the sequence instead of the whole activation. `dim` is the sequence dim of
// the tensor; no transposition is needed.
// on the last layer before the region: shards its output
struct SequenceParallelBegin {
  int dim = 1;
};
// On the first layer after the region: gathers its input.
struct SequenceParallelEnd {
  int dim = 1;
};
struct SequenceParallelEnable { // the region is this layer only
  int dim = 1;
};
struct SequenceParallelDisable { // the region is everything but this layer
  int dim = 1;
};

using LayerPlan = std::variant<
    ColWiseParallel,
    RowWiseParallel,
    PrepareLayerInput,
    PrepareLayerOutput,
    SequenceParallelBegin,
    SequenceParallelEnd,
    SequenceParallelEnable,
    SequenceParallelDisable>;

// One plan, or several that apply in order.
struct LayerPlans : std::vector<LayerPlan> {
  using std::vector<LayerPlan>::vector;
  template <typename Plan>
  requires std::constructible_from<LayerPlan, Plan> LayerPlans(Plan plan)
      : std::vector<LayerPlan>{std::move(plan)} {} // NOLINT
};

struct ParallelizeConfig {
  struct Mp {
    // Keys are names of layers or parameters, or regular expressions that match
    // the whole name: "blocks\\..*\\.qkv". If several keys match, all apply.
    std::vector<std::pair<std::string, LayerPlans>> parallelize_plan;
  };
  struct Dp {
    int sharding_level = 0; // see ShardingStage
    std::string sharding_mesh_dim = "dp";
  };
  struct Pp {
    // Layers before or after which to split the pipeline: stages * chunks - 1
    // points. Empty: evenly, by estimated work.
    SplitSpec split_spec = {};
    int chunks = 1;
    pipeline::PartOrder order = pipeline::PartOrder::kRound;
    // If set, stages keep only what they receive, and run again in backward.
    std::optional<RecomputeOptions> recompute = std::nullopt;
  };

  std::optional<Mp> mp_config = std::nullopt;
  std::optional<Dp> dp_config = std::nullopt;
  std::optional<Pp> pp_config = std::nullopt;
};

} // namespace argosy
