#include "argosy/dtensor/ops/families.h"

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::dtensor {

void RuleTable::add(std::string_view names, const Rule& rule) {
  for (const std::string& name : split(names, ' ')) {
    add_qualified("aten::" + name, rule);
  }
}

void RuleTable::add_qualified(const std::string& name, const Rule& rule) {
  ARGOSY_ASSERT(rules_.emplace(name, rule).second, "{} has two rules", name);
}

const Rule* RuleTable::find(const std::string& name) const {
  const auto found = rules_.find(name);
  return found == rules_.end() ? nullptr : &found->second;
}

namespace {

RuleTable make_table() {
  RuleTable table;
  add_arrange_rules(table);
  add_batch_norm_rules(table);
  add_composite_rules(table);
  add_convolution_rules(table);
  add_embedding_rules(table);
  add_equal_rules(table);
  add_fft_rules(table);
  add_index_rules(table);
  add_linalg_rules(table);
  add_loss_rules(table);
  add_matmul_rules(table);
  add_nll_loss_rules(table);
  add_norm_rules(table);
  add_order_rules(table);
  add_pointwise_rules(table);
  add_pooling_rules(table);
  add_random_rules(table);
  add_reduction_rules(table);
  add_sampling_rules(table);
  add_scatter_rules(table);
  add_slice_rules(table);
  add_softmax_rules(table);
  add_special_rules(table);
  add_statistics_rules(table);
  add_view_rules(table);
  return table;
}

} // namespace

const RuleTable& rule_table() {
  static const RuleTable table = make_table();
  return table;
}

void add_kernels(torch_hooks::WrapperKernels& kernels) {
  add_composite_kernels(kernels);
  add_dropout_kernels(kernels);
  add_embedding_kernels(kernels);
  add_item_kernels(kernels);
  add_matmul_kernels(kernels);
  add_reader_kernels(kernels);
  add_recurrent_kernels(kernels);
}

const Rule* find_rule(const std::string& name) {
  const RuleTable& table = rule_table();
  if (const Rule* rule = table.find(name)) {
    return rule;
  }
  const std::size_t dot = name.find('.');
  std::string base = name.substr(0, dot);
  const std::string overload = dot == std::string::npos ? "" : name.substr(dot);
  if (base.ends_with('_') && !base.ends_with("__")) {
    base.pop_back();
    if (const Rule* rule = table.find(base + overload)) {
      return rule;
    }
  }
  return table.find(base);
}

} // namespace argosy::dtensor
