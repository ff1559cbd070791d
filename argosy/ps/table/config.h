#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/ps/table/entry.h"
#include "argosy/ps/table/rule.h"

namespace argosy::ps {

// What a row holds, what a pull returns and what a push brings.
//
//            pull                              push
// CtrCommon  show, click, embed_w, embedx_w..  slot, show, click, embed_g, ..
// CtrDouble  the same, with show and click kept as doubles
// Sparse     embed_w, embedx_w..               slot, show, click, embed_g, ..
// Embedding  w..                               g..
//
// Embedding is ours: weights and the rule's state, nothing else. Its rows have
// no shows and no days, so they are never decayed or shrunk.
enum class Accessor { CtrCommon, CtrDouble, Sparse, Embedding };

std::string_view to_string(Accessor accessor); // "CtrCommonAccessor", ...

// The life of a key; names and defaults of ctr_accessor_param.
struct CtrConfig {
  float nonclk_coeff = 0.1f;
  float click_coeff = 1;
  float base_threshold = 1.5f;
  float delta_threshold = 0.25f;
  float delta_keep_days = 16;
  float show_click_decay_rate = 0.98f;
  float delete_threshold = 0.8f;
  float delete_after_unseen_days = 30;
  int ssd_unseenday_threshold = 1;
  bool show_scale = true; // gradients are divided by the pushed show
  bool zero_init = true;  // of embed_w; embedx_w is always random
  std::vector<float> load_filter_slots; // rows of these slots are not loaded
  std::vector<float> save_filter_slots; // nor saved in modes 1 and 2

  // What a feature is worth.
  template <typename T>
  T score(T show, T click) const {
    return (show - click) * nonclk_coeff + click * click_coeff;
  }

  bool operator==(const CtrConfig&) const = default;
};

// What a pull of an unknown key gives. A row begins with values that depend on
// (seed, table, key) only, so it can also be shown before it exists.
enum class UnknownKey { Zeros, InitialValues, Create };

// Rows beyond the memory budget stand in RocksDB.
struct SsdConfig {
  std::string folder; // one folder below for each table and partition
  // Rows that a table keeps in memory, over all its partitions; 0: only
  // demote_cold() moves rows to disk.
  std::size_t max_rows_in_memory = 0;
  // Over all partitions: of what was read, and of rows on their way to files.
  std::size_t block_cache_bytes = 32u << 20;
  std::size_t write_buffer_bytes = 64u << 20;

  bool operator==(const SsdConfig&) const = default;
};

// One sparse table.
struct SparseConfig {
  int table_id = 0;
  std::string name = "sparse"; // for messages
  int shard_num = 1000;        // shard of a key = key % shard_num; see ShardMap
  int num_partitions = 1;      // single-threaded parts of a server's shards

  Accessor accessor = Accessor::CtrCommon;
  int embedx_dim = 8; // Embedding: dim of the weights
  float embedx_threshold = 10;
  CtrConfig ctr;
  RuleConfig embed_rule;
  RuleConfig embedx_rule;

  Entry entry;
  UnknownKey unknown_key = UnknownKey::Zeros;
  bool create_by_score = false;  // pserver_enable_create_feasign_randomly
  bool refuse_non_finite = true; // pushes with NaN or infinity throw
  std::uint64_t seed = 0;        // of initial values and of chance

  bool on_ssd = false;
  SsdConfig ssd;

  bool compress_in_save = false; // .gz
  std::string converter;         // shell commands that saved text goes through
  std::string deconverter;       // in modes 1 and 2

  bool operator==(const SparseConfig&) const = default;
};

// Throws InvalidArgument: names the table, the field, its value and what was
// expected.
void check(const SparseConfig& config);

// Throws InvalidArgument, naming the table, unless there are `dim` floats for
// each key of a pull or push (`op`).
void check_floats(
    const SparseConfig& config,
    const char* op,
    std::size_t num_keys,
    std::size_t num_floats,
    std::size_t dim);

// What the reference's runtime fills in when the user configures nothing: a
// SparseAccessor whose pull returns `dim` weights, without eviction.
SparseConfig default_sparse_config(int dim);

// The same weights in half of the memory: accessor Embedding.
SparseConfig embedding_config(int dim, RuleConfig rule);

} // namespace argosy::ps
