#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>

#include "argosy/ps/table/config.h"

namespace argosy::ps {

// Tables by name, from the two forms of a strategy. Both throw InvalidArgument,
// naming table, key and value, and listing what is known, for an unknown key,
// table class, accessor class or optimizer and for a value of a wrong type.

// sparse_table_configs: {table: {field: value, ...}} with nested fields of the
// reference's proto: table_class, shard_num, accessor.ctr_accessor_param, ...
std::map<std::string, SparseConfig> parse_sparse_table_configs(
    const nlohmann::json& configs);

// fleet_desc_configs: {table: {sparse_shard_num: 1000, ...}}, flat. `use_cvm`
// false: accessor Sparse.
std::map<std::string, SparseConfig> parse_fleet_desc_configs(
    const nlohmann::json& configs, bool use_cvm = true);

} // namespace argosy::ps
