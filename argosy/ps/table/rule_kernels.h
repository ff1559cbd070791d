#pragma once

#include <cstddef>

#include "argosy/ps/table/rule.h"
#include "argosy/simd/isa.h"

// The loops under rules, compiled for each instruction set. All give the same
// bits.
namespace argosy::ps {

// A row's weights, their state and their gradient, which is divided by `scale`
// (Naive, Adam, SharedAdam and Sum ignore it).
struct RowUpdate {
  float* weights;
  float* state;
  const float* gradient;
  std::size_t dim;
  float scale;
};

using UpdateRow = void (*)(const RuleConfig& config, const RowUpdate& row);

// Rows that are weights and then their state, and a gradient for each, one
// behind the other. A row may stand here several times: they are updated in
// order.
struct RowsUpdate {
  float* const* rows;
  std::size_t count;
  const float* gradients;
  std::size_t dim;
};

using UpdateRows = void (*)(const RuleConfig& config, const RowsUpdate& update);

// The first `dim` words of each row, one behind the other.
struct RowsCopy {
  const float* const* rows;
  std::size_t count;
  float* out;
  std::size_t dim;
};

// What a step of a dense table needs to know; see DenseConfig.
struct DenseNumbers {
  float rate = 0; // Adam: corrected
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0; // Adam: corrected
  float momentum = 0;
  float moment_decay_rate = 0;
  float ada_decay_rate = 0;
  float ada_epsilon = 0;
  float summary_decay_rate = 0;
};

// A dense table's values, the columns of their state and their gradient.
struct DenseUpdate {
  float* values;
  float* const* columns;
  const float* gradient;
  std::size_t size;
};

using UpdateDense =
    void (*)(const DenseNumbers& numbers, const DenseUpdate& update);

struct RuleKernels {
  UpdateRow update_row[7];     // by Rule
  UpdateRows update_rows[7];   // by Rule
  UpdateDense update_dense[7]; // by DenseRule
  void (*copy_rows)(const RowsCopy& copy);
  // Whether all are finite.
  bool (*all_finite)(const float* values, std::size_t size);
};

extern const RuleKernels kBaselineRuleKernels;
extern const RuleKernels kAvx2RuleKernels;
extern const RuleKernels kAvx512RuleKernels;

const RuleKernels& rule_kernels(simd::Isa isa);

} // namespace argosy::ps
