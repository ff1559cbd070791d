#include "argosy/ps/table/config.h"

#include <cmath>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

// Collects the table's name once for all checks.
struct ConfigChecks {
  const SparseConfig& config;

  template <typename T>
  void expect(
      bool valid, const char* field, const T& value, const char* what) const {
    ARGOSY_CHECK(
        valid,
        "[ps.config] table '{}': {} is {}, expected {}",
        config.name,
        field,
        value,
        what);
  }

  void finite(const char* field, float value) const {
    expect(std::isfinite(value), field, value, "a finite number");
  }

  void rule(const std::string& part, const RuleConfig& rule) const {
    const auto is = [&](const char* field, float value, bool valid) {
      expect(
          valid && std::isfinite(value),
          (part + "." + field).c_str(),
          value,
          "a finite number in the range of the rule");
    };
    is("learning_rate", rule.learning_rate, true);
    is("initial_range", rule.initial_range, rule.initial_range >= 0);
    is("initial_g2sum", rule.initial_g2sum, rule.initial_g2sum > 0);
    is("beta1", rule.beta1, rule.beta1 >= 0 && rule.beta1 < 1);
    is("beta2", rule.beta2, rule.beta2 >= 0 && rule.beta2 < 1);
    is("epsilon", rule.epsilon, rule.epsilon >= 0);
    is("weight_bounds", rule.min_weight, rule.min_weight <= rule.max_weight);
    is("weight_bounds", rule.max_weight, true);
  }

  void life() const {
    const CtrConfig& ctr = config.ctr;
    finite("nonclk_coeff", ctr.nonclk_coeff);
    finite("click_coeff", ctr.click_coeff);
    finite("base_threshold", ctr.base_threshold);
    finite("delta_threshold", ctr.delta_threshold);
    finite("delta_keep_days", ctr.delta_keep_days);
    finite("delete_threshold", ctr.delete_threshold);
    finite("delete_after_unseen_days", ctr.delete_after_unseen_days);
    finite("embedx_threshold", config.embedx_threshold);
    expect(
        ctr.show_click_decay_rate >= 0 && ctr.show_click_decay_rate <= 1,
        "show_click_decay_rate",
        ctr.show_click_decay_rate,
        "a number from 0 to 1");
  }
};

} // namespace

std::string_view to_string(Accessor accessor) {
  constexpr std::string_view kNames[] = {
      "CtrCommonAccessor",
      "CtrDoubleAccessor",
      "SparseAccessor",
      "EmbeddingAccessor"};
  return kNames[static_cast<int>(accessor)];
}

void check(const SparseConfig& config) {
  const ConfigChecks checks{config};
  checks.expect(
      config.table_id >= 0, "table_id", config.table_id, "at least 0");
  checks.expect(
      config.shard_num > 0, "shard_num", config.shard_num, "at least 1");
  checks.expect(
      config.num_partitions > 0,
      "num_partitions",
      config.num_partitions,
      "at least 1");
  constexpr int kLargestDim = 1 << 16;
  checks.expect(
      config.embedx_dim > 0 && config.embedx_dim <= kLargestDim,
      "embedx_dim",
      config.embedx_dim,
      "1 to 65536");
  checks.rule("embed_sgd_param", config.embed_rule);
  checks.rule("embedx_sgd_param", config.embedx_rule);
  checks.life();
  checks.expect(
      !config.on_ssd || !config.ssd.folder.empty(),
      "ssd.folder",
      "empty",
      "a folder for RocksDB");
}

SparseConfig default_sparse_config(int dim) {
  SparseConfig config;
  ARGOSY_CHECK(
      dim > 1,
      "[ps.config] an embedding of {} weights, expected at least 2: one of "
      "them is embed_w",
      dim);
  config.accessor = Accessor::Sparse;
  config.embedx_dim = dim - 1;
  config.embedx_threshold = 0;
  config.ctr.base_threshold = 0;
  config.ctr.delta_threshold = 0;
  config.ctr.delete_threshold = 0;
  config.ctr.show_click_decay_rate = 1;
  return config;
}

SparseConfig embedding_config(int dim, RuleConfig rule) {
  SparseConfig config;
  config.accessor = Accessor::Embedding;
  config.embedx_dim = dim;
  config.embedx_rule = rule;
  config.unknown_key = UnknownKey::InitialValues;
  return config;
}

void check_floats(
    const SparseConfig& config,
    const char* op,
    std::size_t num_keys,
    std::size_t num_floats,
    std::size_t dim) {
  ARGOSY_CHECK(
      num_floats == num_keys * dim,
      "[ps.{}] table '{}': {} keys with {} floats, expected {}: {} for each "
      "key",
      op,
      config.name,
      num_keys,
      num_floats,
      num_keys * dim,
      dim);
}

} // namespace argosy::ps
