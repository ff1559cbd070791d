#include "argosy/ps/table/config_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/ps/table/json_fields.h"

namespace argosy::ps {

namespace {

template <typename T>
using Names = std::vector<std::pair<std::string, T>>;

template <typename T>
T choose(
    const std::string& path, const std::string& name, const Names<T>& names) {
  std::vector<std::string> known;
  for (const auto& [key, value] : names) {
    if (key == name) {
      return value;
    }
    known.push_back(key);
  }
  throw InvalidArgument(
      str("[ps.config] ",
          path,
          " is '",
          name,
          "', expected one of ",
          join(known, ", ")));
}

template <typename T>
void read_choice(
    JsonFields& fields,
    std::string_view field,
    const Names<T>& names,
    T& value) {
  std::string name;
  fields.read(field, name);
  if (!name.empty()) {
    value = choose(fields.path(field), name, names);
  }
}

const Names<Rule> kRuleClasses = {
    {"SparseNaiveSGDRule", Rule::Naive},
    {"SparseAdaGradSGDRule", Rule::AdaGrad},
    {"StdAdaGradSGDRule", Rule::StdAdaGrad},
    {"SparseAdaGradV2SGDRule", Rule::AdaGradV2},
    {"SparseAdamSGDRule", Rule::Adam},
    {"SparseSharedAdamSGDRule", Rule::SharedAdam}};

const Names<Rule> kRuleNames = {
    {"naive", Rule::Naive},
    {"adagrad", Rule::AdaGrad},
    {"std_adagrad", Rule::StdAdaGrad},
    {"adagrad_v2", Rule::AdaGradV2},
    {"adam", Rule::Adam},
    {"shared_adam", Rule::SharedAdam}};

const Names<bool> kOnSsd = {
    {"MemorySparseTable", false},
    {"SSDSparseTable", true},
    {"CommonSparseTable", false}};

const Names<bool> kDownpourOnSsd = {
    {"DownpourSparseTable", false}, {"DownpourSparseSSDTable", true}};

const Names<Accessor> kAccessors = {
    {"CtrCommonAccessor", Accessor::CtrCommon},
    {"CtrDoubleAccessor", Accessor::CtrDouble},
    {"SparseAccessor", Accessor::Sparse},
    {"EmbeddingAccessor", Accessor::Embedding}};

const Names<UnknownKey> kUnknownKeys = {
    {"zeros", UnknownKey::Zeros},
    {"initial_values", UnknownKey::InitialValues},
    {"create", UnknownKey::Create}};

bool is_adam(Rule rule) {
  return rule == Rule::Adam || rule == Rule::SharedAdam;
}

// Adam's rate is smaller than that of the others.
float default_rate(Rule rule) {
  return is_adam(rule) ? 0.001f : 0.05f;
}

void set_bounds(
    const JsonFields& fields,
    std::string_view name,
    const std::vector<float>& bounds,
    RuleConfig& rule) {
  if (bounds.empty()) {
    return;
  }
  ARGOSY_CHECK(
      bounds.size() == 2,
      "[ps.config] {} has {} numbers, expected 2: the smallest and the largest "
      "weight",
      fields.path(name),
      bounds.size());
  rule.min_weight = bounds[0];
  rule.max_weight = bounds[1];
}

// ---- The proto's form -------------------------------------------------------

// naive, adagrad or adam of an sgd_param.
void read_rule_fields(
    const nlohmann::json& object, const std::string& where, RuleConfig& rule) {
  JsonFields fields(object, where);
  std::vector<float> bounds;
  fields.read("learning_rate", rule.learning_rate);
  fields.read("initial_range", rule.initial_range);
  fields.read("weight_bounds", bounds);
  if (where.ends_with(".adagrad")) {
    fields.read("initial_g2sum", rule.initial_g2sum);
  }
  if (where.ends_with(".adam")) {
    fields.read("beta1_decay_rate", rule.beta1);
    fields.read("beta2_decay_rate", rule.beta2);
    fields.read("ada_epsilon", rule.epsilon);
  }
  fields.finish();
  set_bounds(fields, "weight_bounds", bounds, rule);
}

std::string fields_of(Rule rule) {
  if (rule == Rule::Naive) {
    return "naive";
  }
  return is_adam(rule) ? "adam" : "adagrad";
}

void read_sgd_param(
    JsonFields& accessor, std::string_view name, RuleConfig& rule) {
  const auto* const object = accessor.find(name);
  if (object == nullptr) {
    return;
  }
  JsonFields fields(*object, accessor.path(name));
  read_choice(fields, "name", kRuleClasses, rule.rule);
  rule.learning_rate = default_rate(rule.rule);
  for (const std::string group : {"naive", "adagrad", "adam"}) {
    const auto* const found = fields.find(group);
    RuleConfig unused; // checks fields of rules that are not chosen
    if (found != nullptr) {
      const bool chosen = group == fields_of(rule.rule);
      read_rule_fields(*found, fields.path(group), chosen ? rule : unused);
    }
  }
  fields.finish();
}

void read_ctr_param(JsonFields& accessor, CtrConfig& ctr) {
  const auto* const object = accessor.find("ctr_accessor_param");
  if (object == nullptr) {
    return;
  }
  JsonFields fields(*object, accessor.path("ctr_accessor_param"));
  fields.read("nonclk_coeff", ctr.nonclk_coeff);
  fields.read("click_coeff", ctr.click_coeff);
  fields.read("base_threshold", ctr.base_threshold);
  fields.read("delta_threshold", ctr.delta_threshold);
  fields.read("delta_keep_days", ctr.delta_keep_days);
  fields.read("show_click_decay_rate", ctr.show_click_decay_rate);
  fields.read("delete_threshold", ctr.delete_threshold);
  fields.read("delete_after_unseen_days", ctr.delete_after_unseen_days);
  fields.read("ssd_unseenday_threshold", ctr.ssd_unseenday_threshold);
  fields.read("show_scale", ctr.show_scale);
  fields.read("zero_init", ctr.zero_init);
  fields.read("load_filter_slots", ctr.load_filter_slots);
  fields.read("save_filter_slots", ctr.save_filter_slots);
  fields.finish();
}

// A list of {param, converter, deconverter}: one pair serves modes 1 and 2.
void read_save_params(JsonFields& accessor, SparseConfig& config) {
  constexpr std::string_view kName = "table_accessor_save_param";
  const auto* const list = accessor.find(kName);
  if (list == nullptr) {
    return;
  }
  ARGOSY_CHECK(
      list->is_array(),
      "[ps.config] {} is {}, expected a list of objects",
      accessor.path(kName),
      list->dump());
  for (const auto& item : *list) {
    JsonFields fields(item, accessor.path(kName));
    int mode = 1;
    fields.read("param", mode);
    ARGOSY_CHECK(
        mode == 1 || mode == 2,
        "[ps.config] {} is {}, expected 1 or 2",
        fields.path("param"),
        mode);
    fields.read("converter", config.converter);
    fields.read("deconverter", config.deconverter);
    fields.finish();
  }
}

void check_fea_dim(JsonFields& accessor, const SparseConfig& config) {
  int fea_dim = 0;
  accessor.read("fea_dim", fea_dim);
  const int dim = config.embedx_dim;
  ARGOSY_CHECK(
      fea_dim == 0 || fea_dim == dim || fea_dim == dim + 1 ||
          fea_dim == dim + 3,
      "[ps.config] {} is {}, expected embedx_dim + 3 = {}",
      accessor.path("fea_dim"),
      fea_dim,
      dim + 3);
}

void read_accessor(JsonFields& table, SparseConfig& config) {
  const auto* const object = table.find("accessor");
  if (object == nullptr) {
    return;
  }
  JsonFields fields(*object, table.path("accessor"));
  read_choice(fields, "accessor_class", kAccessors, config.accessor);
  fields.read("embedx_dim", config.embedx_dim);
  fields.read("embedx_threshold", config.embedx_threshold);
  check_fea_dim(fields, config);
  read_ctr_param(fields, config.ctr);
  read_sgd_param(fields, "embed_sgd_param", config.embed_rule);
  read_sgd_param(fields, "embedx_sgd_param", config.embedx_rule);
  read_save_params(fields, config);
  fields.finish();
}

// Fields of ours, in both forms.
void read_own(JsonFields& fields, SparseConfig& config) {
  fields.read("num_partitions", config.num_partitions);
  fields.read("seed", config.seed);
  fields.read("create_by_score", config.create_by_score);
  fields.read("refuse_non_finite", config.refuse_non_finite);
  read_choice(fields, "unknown_key", kUnknownKeys, config.unknown_key);
  std::string entry = "none";
  fields.read("entry", entry);
  config.entry = parse_entry(entry);
  fields.read("ssd_folder", config.ssd.folder);
  std::uint64_t rows = config.ssd.max_rows_in_memory;
  fields.read("ssd_max_rows_in_memory", rows);
  config.ssd.max_rows_in_memory = rows;
  std::uint64_t cache = config.ssd.block_cache_bytes;
  fields.read("ssd_block_cache_bytes", cache);
  config.ssd.block_cache_bytes = cache;
  std::uint64_t written = config.ssd.write_buffer_bytes;
  fields.read("ssd_write_buffer_bytes", written);
  config.ssd.write_buffer_bytes = written;
}

// Fields of caches that only the reference's devices read.
template <typename T>
void accept(JsonFields& fields, std::string_view name, T value = {}) {
  fields.read(name, value);
}

SparseConfig parse_table(
    const nlohmann::json& object, const std::string& where) {
  SparseConfig config;
  JsonFields fields(object, where);
  fields.read("table_id", config.table_id);
  fields.read("shard_num", config.shard_num);
  fields.read("compress_in_save", config.compress_in_save);
  read_choice(fields, "table_class", kOnSsd, config.on_ssd);
  accept<std::string>(fields, "type");
  accept<bool>(fields, "enable_sparse_table_cache");
  accept<float>(fields, "sparse_table_cache_rate");
  accept<int>(fields, "sparse_table_cache_file_num");
  accept<bool>(fields, "enable_revert");
  accept<float>(fields, "shard_merge_rate");
  read_accessor(fields, config);
  read_own(fields, config);
  fields.finish();
  return config;
}

// ---- The flat form ----------------------------------------------------------

struct DownpourClass {
  Accessor accessor = Accessor::CtrCommon;
  bool show_scale = true;
};

const std::vector<std::string> kDownpourAccessors = {
    "DownpourSparseValueAccessor",
    "DownpourCtrAccessor",
    "DownpourCtrDoubleAccessor",
    "DownpourUnitAccessor",
    "DownpourDoubleUnitAccessor"};

DownpourClass downpour_class(const std::string& path, const std::string& name) {
  if (std::find(kDownpourAccessors.begin(), kDownpourAccessors.end(), name) ==
      kDownpourAccessors.end()) {
    throw InvalidArgument(
        str("[ps.config] ",
            path,
            " is '",
            name,
            "', expected one of ",
            join(kDownpourAccessors, ", ")));
  }
  DownpourClass chosen;
  if (name.find("Double") != std::string::npos) {
    chosen.accessor = Accessor::CtrDouble;
  }
  chosen.show_scale = name.find("Unit") == std::string::npos;
  return chosen;
}

void read_flat_life(JsonFields& fields, SparseConfig& config) {
  CtrConfig& ctr = config.ctr;
  fields.read("sparse_nonclk_coeff", ctr.nonclk_coeff);
  fields.read("sparse_click_coeff", ctr.click_coeff);
  fields.read("sparse_base_threshold", ctr.base_threshold);
  fields.read("sparse_delta_threshold", ctr.delta_threshold);
  fields.read("sparse_delta_keep_days", ctr.delta_keep_days);
  fields.read("sparse_show_click_decay_rate", ctr.show_click_decay_rate);
  fields.read("sparse_delete_threshold", ctr.delete_threshold);
  fields.read("sparse_delete_after_unseen_days", ctr.delete_after_unseen_days);
  fields.read("sparse_ssd_unseenday_threshold", ctr.ssd_unseenday_threshold);
  fields.read("sparse_load_filter_slots", ctr.load_filter_slots);
  fields.read("sparse_save_filter_slots", ctr.save_filter_slots);
  fields.read("sparse_zero_init", ctr.zero_init);
}

// "sparse_learning_rate" and the like, with a prefix for one part of the row.
void read_flat_rule(
    JsonFields& fields, const std::string& prefix, RuleConfig& rule) {
  const auto name = [&](const char* field) {
    return prefix + "sparse_" + field;
  };
  read_choice(fields, name("optimizer"), kRuleNames, rule.rule);
  rule.learning_rate = default_rate(rule.rule);
  std::vector<float> bounds = {-10, 10};
  fields.read(name("learning_rate"), rule.learning_rate);
  fields.read(name("initial_range"), rule.initial_range);
  fields.read(name("initial_g2sum"), rule.initial_g2sum);
  fields.read(name("weight_bounds"), bounds);
  fields.read(name("beta1_decay_rate"), rule.beta1);
  fields.read(name("beta2_decay_rate"), rule.beta2);
  fields.read(name("ada_epsilon"), rule.epsilon);
  set_bounds(fields, name("weight_bounds"), bounds, rule);
}

void read_flat_rules(JsonFields& fields, SparseConfig& config) {
  const bool shared = config.accessor == Accessor::CtrCommon ||
      config.accessor == Accessor::CtrDouble;
  if (shared) {
    read_flat_rule(fields, "", config.embed_rule);
    config.embedx_rule = config.embed_rule;
    return;
  }
  read_flat_rule(fields, "embed_", config.embed_rule);
  read_flat_rule(fields, "embedx_", config.embedx_rule);
  if (fields_of(config.embed_rule.rule) == "adagrad") {
    config.embed_rule.initial_range = 0;
  }
}

SparseConfig parse_flat_table(
    const nlohmann::json& object, const std::string& where, bool use_cvm) {
  SparseConfig config;
  JsonFields fields(object, where);
  fields.read("table_id", config.table_id);
  read_choice(fields, "sparse_table_class", kDownpourOnSsd, config.on_ssd);
  std::string name = "DownpourCtrAccessor";
  fields.read("sparse_accessor_class", name);
  const DownpourClass chosen =
      downpour_class(fields.path("sparse_accessor_class"), name);
  config.accessor = use_cvm ? chosen.accessor : Accessor::Sparse;
  config.ctr.show_scale = chosen.show_scale;
  fields.read("sparse_shard_num", config.shard_num);
  fields.read("sparse_compress_in_save", config.compress_in_save);
  accept<bool>(fields, "sparse_enable_cache");
  accept<float>(fields, "sparse_cache_rate");
  accept<int>(fields, "sparse_cache_file_num");
  accept<bool>(fields, "use_gpu_graph");
  accept<float>(fields, "feature_learning_rate");
  accept<int>(fields, "nodeid_slot");
  fields.read("sparse_embedx_dim", config.embedx_dim);
  fields.read("sparse_embedx_threshold", config.embedx_threshold);
  fields.read("sparse_converter", config.converter);
  fields.read("sparse_deconverter", config.deconverter);
  read_flat_life(fields, config);
  read_flat_rules(fields, config);
  read_own(fields, config);
  fields.finish();
  return config;
}

// Tables in the order of their names; those without an id are numbered.
template <typename Parse>
std::map<std::string, SparseConfig> parse_tables(
    const nlohmann::json& configs, const std::string& where, Parse parse) {
  ARGOSY_CHECK(
      configs.is_object(),
      "[ps.config] {} is {}, expected an object of tables by name",
      where,
      configs.dump());
  std::map<std::string, SparseConfig> tables;
  int next_id = 0;
  for (const auto& [name, object] : configs.items()) {
    SparseConfig config = parse(object, str(where, ".", name));
    config.name = name;
    if (!object.contains("table_id")) {
      config.table_id = next_id;
    }
    next_id = std::max(next_id, config.table_id) + 1;
    if (!config.on_ssd || !config.ssd.folder.empty()) {
      check(config);
    }
    tables.emplace(name, std::move(config));
  }
  return tables;
}

} // namespace

std::map<std::string, SparseConfig> parse_sparse_table_configs(
    const nlohmann::json& configs) {
  return parse_tables(configs, "sparse_table_configs", parse_table);
}

std::map<std::string, SparseConfig> parse_fleet_desc_configs(
    const nlohmann::json& configs, bool use_cvm) {
  return parse_tables(
      configs,
      "fleet_desc_configs",
      [&](const nlohmann::json& object, const std::string& where) {
        return parse_flat_table(object, where, use_cvm);
      });
}

} // namespace argosy::ps
