#pragma once

#include <map>
#include <string>
#include <string_view>

#include "argosy/dtensor/ops/rule.h"

namespace argosy::torch_hooks {
struct WrapperKernels;
}

// The families of ops, one file each. To add one: write `ops/<family>.cpp` with
// a function that adds its rules, declare it here, and call it in families.cpp.
namespace argosy::dtensor {

// Rules by name: "aten::sum" for all overloads, "aten::max.dim" for one.
class RuleTable {
 public:
  // Names are without "aten::" and separated by spaces. Throws InternalError
  // for a second rule.
  void add(std::string_view names, const Rule& rule);
  // Of another library: "argosy::linear_weight_grad".
  void add_qualified(const std::string& name, const Rule& rule);
  const Rule* find(const std::string& name) const;

  const std::map<std::string, Rule>& rules() const { return rules_; }

 private:
  std::map<std::string, Rule> rules_;
};

const RuleTable& rule_table();

// The rule of an op; null when there is none. Overloads with a rule of their
// own come first; in-place ones have that of the op without underscore.
const Rule* find_rule(const std::string& name);

void add_arrange_rules(RuleTable& table);
void add_batch_norm_rules(RuleTable& table);
void add_composite_rules(RuleTable& table);
void add_convolution_rules(RuleTable& table);
void add_embedding_rules(RuleTable& table);
void add_equal_rules(RuleTable& table);
void add_fft_rules(RuleTable& table);
void add_index_rules(RuleTable& table);
void add_linalg_rules(RuleTable& table);
void add_loss_rules(RuleTable& table);
void add_matmul_rules(RuleTable& table);
void add_nll_loss_rules(RuleTable& table);
void add_norm_rules(RuleTable& table);
void add_order_rules(RuleTable& table);
void add_pointwise_rules(RuleTable& table);
void add_pooling_rules(RuleTable& table);
void add_random_rules(RuleTable& table);
void add_reduction_rules(RuleTable& table);
void add_sampling_rules(RuleTable& table);
void add_scatter_rules(RuleTable& table);
void add_slice_rules(RuleTable& table);
void add_softmax_rules(RuleTable& table);
void add_special_rules(RuleTable& table); // after pointwise ones
void add_statistics_rules(RuleTable& table);
void add_view_rules(RuleTable& table);

// Kernels of ops that LibTorch would take apart in a way that DTensors cannot
// go. add_kernels() adds those of all families.
void add_kernels(torch_hooks::WrapperKernels& kernels);
void add_composite_kernels(torch_hooks::WrapperKernels& kernels);
void add_dropout_kernels(torch_hooks::WrapperKernels& kernels);
void add_embedding_kernels(torch_hooks::WrapperKernels& kernels);
void add_item_kernels(torch_hooks::WrapperKernels& kernels);
void add_matmul_kernels(torch_hooks::WrapperKernels& kernels);
void add_reader_kernels(torch_hooks::WrapperKernels& kernels);
void add_recurrent_kernels(torch_hooks::WrapperKernels& kernels);

} // namespace argosy::dtensor
