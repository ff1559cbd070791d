#include "argosy/ps/table/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/ps/table/row_layout.h"

namespace argosy::ps {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

SparseConfig nested(const char* text) {
  return parse_sparse_table_configs(json{{"emb", json::parse(text)}}).at("emb");
}

SparseConfig flat(const char* text, bool use_cvm = true) {
  return parse_fleet_desc_configs(json{{"emb", json::parse(text)}}, use_cvm)
      .at("emb");
}

TEST(SparseTableConfigs, ReadTheProtosFields) {
  const SparseConfig config = nested(R"({
    "table_class": "MemorySparseTable", "shard_num": 10,
    "accessor": {
      "accessor_class": "CtrDoubleAccessor", "fea_dim": 7, "embedx_dim": 4,
      "embedx_threshold": 5,
      "ctr_accessor_param": {"nonclk_coeff": 0.2, "show_scale": false,
                             "delta_keep_days": 3},
      "embed_sgd_param": {"name": "SparseAdamSGDRule",
                          "adam": {"beta1_decay_rate": 0.8}},
      "embedx_sgd_param": {"name": "StdAdaGradSGDRule",
        "adagrad": {"learning_rate": 0.5, "weight_bounds": [-1, 2]},
        "adam": {"learning_rate": 9}},
      "table_accessor_save_param": [
        {"param": 1, "converter": "c", "deconverter": "d"}]}})");
  EXPECT_EQ(config.name, "emb");
  EXPECT_EQ(config.shard_num, 10);
  EXPECT_EQ(config.accessor, Accessor::CtrDouble);
  EXPECT_EQ(config.embedx_dim, 4);
  EXPECT_EQ(config.embedx_threshold, 5);
  EXPECT_EQ(config.ctr.nonclk_coeff, 0.2f);
  EXPECT_FALSE(config.ctr.show_scale);
  EXPECT_EQ(config.ctr.delta_keep_days, 3);
  EXPECT_EQ(
      config.embed_rule,
      (RuleConfig{.rule = Rule::Adam, .learning_rate = 0.001f, .beta1 = 0.8f}));
  EXPECT_EQ(config.embedx_rule.rule, Rule::StdAdaGrad);
  EXPECT_EQ(config.embedx_rule.learning_rate, 0.5f);
  EXPECT_EQ(config.embedx_rule.max_weight, 2);
  EXPECT_EQ(config.converter, "c");
  EXPECT_EQ(config.deconverter, "d");
  EXPECT_EQ(nested("{}").embedx_dim, SparseConfig{}.embedx_dim);
}

TEST(SparseTableConfigs, ReadOurOwnFields) {
  const SparseConfig config = nested(R"({
    "table_id": 3, "table_class": "SSDSparseTable", "ssd_folder": "/tmp/x",
    "ssd_max_rows_in_memory": 1000, "ssd_write_buffer_bytes": 4096, "entry": "count_filter_entry:4",
    "unknown_key": "create", "seed": 7, "num_partitions": 2,
    "accessor": {"accessor_class": "EmbeddingAccessor"}})");
  EXPECT_EQ(config.table_id, 3);
  EXPECT_TRUE(config.on_ssd);
  EXPECT_EQ(config.ssd.max_rows_in_memory, 1000u);
  EXPECT_EQ(config.ssd.write_buffer_bytes, 4096u);
  EXPECT_EQ(config.entry, count_filter_entry(4));
  EXPECT_EQ(config.unknown_key, UnknownKey::Create);
  EXPECT_EQ(config.seed, 7u);
  EXPECT_EQ(config.num_partitions, 2);
  EXPECT_EQ(config.accessor, Accessor::Embedding);
}

TEST(SparseTableConfigs, RefuseWhatIsUnknownAndListWhatIsKnown) {
  EXPECT_THAT(
      [] { nested(R"({"accessor": {"embed_dim": 3}})"); },
      ThrowsMessage<InvalidArgument>(AllOf(
          HasSubstr("sparse_table_configs.emb.accessor has no field"),
          HasSubstr("do you mean embedx_dim?"),
          HasSubstr("embedx_sgd_param"))));
  EXPECT_THAT(
      [] { nested(R"({"accessor": {"accessor_class": "CtrDymfAccessor"}})"); },
      ThrowsMessage<InvalidArgument>(
          HasSubstr("expected one of CtrCommonAccessor, CtrDoubleAccessor")));
  EXPECT_THAT(
      [] { nested(R"({"table_class": "GraphTable"})"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("SSDSparseTable")));
  EXPECT_THAT(
      [] { nested(R"({"shard_num": "ten"})"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("expected an integer")));
  EXPECT_THAT(
      [] { nested(R"({"shard_num": 0})"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("shard_num is 0")));
  for (
      const char* text :
      {R"({"accessor": 1})",
       R"({"accessor": {"fea_dim": 99}})",
       R"({"accessor": {"embedx_sgd_param": {"name": "RMSProp"}}})",
       R"({"accessor": {"embedx_sgd_param": {"adam": {"initial_g2sum": 1}}}})",
       R"({"accessor": {"embedx_sgd_param": {"adagrad": {"weight_bounds": [1]}}}})",
       R"({"accessor": {"table_accessor_save_param": [{"param": 3}]}})",
       R"({"accessor": {"ctr_accessor_param": {"show_scale": 1}}})",
       R"({"unknown_key": "maybe"})",
       R"({"entry": "sometimes"})",
       R"({"seed": -1})",
       R"({"compress_in_save": "yes"})"}) {
    EXPECT_THROW(nested(text), InvalidArgument) << text;
  }
  EXPECT_THROW(parse_sparse_table_configs(json::array()), InvalidArgument);
}

TEST(FleetDescConfigs, ReadTheFlatKeys) {
  const SparseConfig config = flat(R"({
    "sparse_table_class": "DownpourSparseSSDTable", "ssd_folder": "/tmp/x",
    "sparse_accessor_class": "DownpourUnitAccessor", "sparse_shard_num": 20,
    "sparse_embedx_dim": 16, "sparse_embedx_threshold": 3,
    "sparse_delete_threshold": 0.5, "sparse_optimizer": "shared_adam",
    "sparse_zero_init": false, "sparse_cache_rate": 0.1})");
  EXPECT_TRUE(config.on_ssd);
  EXPECT_EQ(config.accessor, Accessor::CtrCommon);
  EXPECT_FALSE(config.ctr.show_scale);
  EXPECT_EQ(config.shard_num, 20);
  EXPECT_EQ(config.embedx_dim, 16);
  EXPECT_EQ(config.ctr.delete_threshold, 0.5f);
  EXPECT_FALSE(config.ctr.zero_init);
  EXPECT_EQ(config.embed_rule.rule, Rule::SharedAdam);
  EXPECT_EQ(config.embedx_rule, config.embed_rule);
  EXPECT_EQ(config.embedx_rule.learning_rate, 0.001f);
  EXPECT_EQ(config.embedx_rule.min_weight, -10);
  EXPECT_EQ(
      flat(R"({"sparse_accessor_class": "DownpourCtrDoubleAccessor"})")
          .accessor,
      Accessor::CtrDouble);
}

TEST(FleetDescConfigs, OtherAccessorsHaveTwoOptimizers) {
  const SparseConfig config = flat(
      R"({"embed_sparse_optimizer": "adagrad", "embed_sparse_initial_range": 1,
          "embedx_sparse_optimizer": "naive",
          "embedx_sparse_learning_rate": 0.3})",
      false);
  EXPECT_EQ(config.accessor, Accessor::Sparse);
  EXPECT_EQ(config.embed_rule.initial_range, 0);
  EXPECT_EQ(config.embedx_rule.rule, Rule::Naive);
  EXPECT_EQ(config.embedx_rule.learning_rate, 0.3f);
  EXPECT_THROW(flat(R"({"sparse_optimizer": "adam"})", false), InvalidArgument);
}

TEST(FleetDescConfigs, RefuseWhatIsUnknownAndListWhatIsKnown) {
  EXPECT_THAT(
      [] { flat(R"({"sparse_embedding_dim": 3})"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("sparse_embedx_dim")));
  EXPECT_THAT(
      [] { flat(R"({"sparse_accessor_class": "DownpourCtrDymfAccessor"})"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("DownpourUnitAccessor")));
  EXPECT_THROW(flat(R"({"sparse_table_class": "X"})"), InvalidArgument);
  EXPECT_THROW(flat(R"({"sparse_optimizer": "lamb"})"), InvalidArgument);
}

TEST(Tables, AreNumberedUnlessTheySayOtherwise) {
  const auto tables = parse_sparse_table_configs(
      json::parse(R"({"a": {}, "b": {"table_id": 5}, "c": {}})"));
  EXPECT_EQ(tables.at("a").table_id, 0);
  EXPECT_EQ(tables.at("b").table_id, 5);
  EXPECT_EQ(tables.at("c").table_id, 6);
}

TEST(DefaultConfig, IsAPlainEmbedding) {
  const SparseConfig config = default_sparse_config(9);
  EXPECT_EQ(row_layout(config).pull_dim, 9);
  EXPECT_EQ(row_layout(embedding_config(9, {})).pull_dim, 9);
  EXPECT_THROW(default_sparse_config(1), InvalidArgument);
}

} // namespace
} // namespace argosy::ps
