#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "argosy/pipeline/cut/split_point.h"
#include "argosy/semi_auto/shard_layer.h"
#include "argosy/semi_auto/stages.h"

// What parallelize() does to a model: values, made of a few lines.
namespace argosy {

// The outputs of the layer are cut: Linear by its output features, Embedding
// by the width of its vectors, a convolution by its output channels.
struct ColWiseParallel {
  bool gather_output = false; // every rank has the whole output
};

// The inputs of the layer are cut: Linear by its input features (each rank then
// has a part of the sum), Embedding by the vocabulary.
struct RowWiseParallel {
  // The input is cut already, as ColWiseParallel leaves it. Nothing breaks if
  // it is not; this says that it should be, and cuts it.
  bool is_input_parallel = true;
};

// A function of the user's on what goes into the layer, or comes out: for
// changing placements. (LibTorch's Linear adds its bias after it.)
struct PrepareLayerInput {
  LayerFn fn;
};
struct PrepareLayerOutput {
  LayerFn fn;
};

// Sequence parallelism: where tensor parallelism has all of an activation on
// all ranks, each has a part of the sequence. Tensors need not be transposed
// for it; `dim` says where the sequence is.
struct SequenceParallelBegin { // on the last layer before: cuts its output
  int dim = 1;
};
struct SequenceParallelEnd { // on the first layer after: gathers its input
  int dim = 1;
};
struct SequenceParallelEnable { // for this layer alone
  int dim = 1;
};
struct SequenceParallelDisable { // all but this layer
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

// One plan, or several that apply in their order.
struct LayerPlans : std::vector<LayerPlan> {
  using std::vector<LayerPlan>::vector;
  template <typename Plan>
  requires std::constructible_from<LayerPlan, Plan> LayerPlans(Plan plan)
      : std::vector<LayerPlan>{std::move(plan)} {} // NOLINT
};

struct ParallelizeConfig {
  struct Mp {
    // By the name of a layer or of a parameter, or a regular expression that
    // matches it whole: "blocks\\..*\\.qkv". Where several match, all apply.
    std::vector<std::pair<std::string, LayerPlans>> parallelize_plan;
  };
  struct Dp {
    int sharding_level = 0; // as ShardingStage
    std::string sharding_mesh_dim = "dp";
  };
  struct Pp {
    // Layers after, or before, which the pipeline is cut.
    SplitSpec split_spec;
  };

  std::optional<Mp> mp_config = std::nullopt;
  std::optional<Dp> dp_config = std::nullopt;
  std::optional<Pp> pp_config = std::nullopt;
};

} // namespace argosy
