#include "argosy/ps/service/table_spec.h"

#include <type_traits>

#include "argosy/common/error.h"
#include "argosy/ps/service/bytes.h"

namespace argosy::ps {

namespace {

// One function lists the fields for both ways: it is given each by reference.
struct FieldWriter {
  ByteWriter& out;
  template <typename T>
  void operator()(const T& field) {
    out.put(field);
  }
  void operator()(const std::string& field) { out.text(field); }
  void operator()(const std::vector<float>& field) {
    out.put(static_cast<std::uint32_t>(field.size()));
    for (const float value : field) {
      out.put(value);
    }
  }
};

struct FieldReader {
  ByteReader& in;
  template <typename T>
  void operator()(T& field) {
    field = in.get<T>();
  }
  void operator()(std::string& field) { field = in.text(); }
  void operator()(std::vector<float>& field) {
    const std::size_t count = in.count(sizeof(float));
    field.clear();
    for (std::size_t i = 0; i < count; ++i) {
      field.push_back(in.get<float>());
    }
  }
};

template <typename Visit>
void visit_rule(Visit& visit, auto& rule) {
  visit(rule.rule);
  visit(rule.learning_rate);
  visit(rule.initial_range);
  visit(rule.initial_g2sum);
  visit(rule.beta1);
  visit(rule.beta2);
  visit(rule.epsilon);
  visit(rule.min_weight);
  visit(rule.max_weight);
}

template <typename Visit>
void visit_ctr(Visit& visit, auto& ctr) {
  visit(ctr.nonclk_coeff);
  visit(ctr.click_coeff);
  visit(ctr.base_threshold);
  visit(ctr.delta_threshold);
  visit(ctr.delta_keep_days);
  visit(ctr.show_click_decay_rate);
  visit(ctr.delete_threshold);
  visit(ctr.delete_after_unseen_days);
  visit(ctr.ssd_unseenday_threshold);
  visit(ctr.show_scale);
  visit(ctr.zero_init);
  visit(ctr.load_filter_slots);
  visit(ctr.save_filter_slots);
}

template <typename Visit>
void visit_sparse(Visit& visit, auto& sparse) {
  visit(sparse.table_id);
  visit(sparse.name);
  visit(sparse.shard_num);
  visit(sparse.num_partitions);
  visit(sparse.accessor);
  visit(sparse.embedx_dim);
  visit(sparse.embedx_threshold);
  visit_ctr(visit, sparse.ctr);
  visit_rule(visit, sparse.embed_rule);
  visit_rule(visit, sparse.embedx_rule);
  visit(sparse.entry.kind);
  visit(sparse.entry.count);
  visit(sparse.entry.probability);
  visit(sparse.entry.show_name);
  visit(sparse.entry.click_name);
  visit(sparse.unknown_key);
  visit(sparse.create_by_score);
  visit(sparse.refuse_non_finite);
  visit(sparse.seed);
  visit(sparse.on_ssd);
  visit(sparse.ssd.folder);
  visit(sparse.ssd.max_rows_in_memory);
  visit(sparse.ssd.block_cache_bytes);
  visit(sparse.ssd.write_buffer_bytes);
  visit(sparse.compress_in_save);
  visit(sparse.converter);
  visit(sparse.deconverter);
}

template <typename Visit>
void visit_dense(Visit& visit, auto& dense) {
  visit(dense.table_id);
  visit(dense.name);
  visit(dense.rule);
  visit(dense.learning_rate);
  visit(dense.beta1);
  visit(dense.beta2);
  visit(dense.epsilon);
  visit(dense.momentum);
  visit(dense.moment_decay_rate);
  visit(dense.ada_decay_rate);
  visit(dense.ada_epsilon);
  visit(dense.summary_decay_rate);
  visit(dense.refuse_non_finite);
}

template <typename Visit>
void visit_table(Visit& visit, auto& spec) {
  visit(spec.is_dense);
  if (spec.is_dense) {
    visit_dense(visit, spec.dense);
    visit(spec.dense_size);
  } else {
    visit_sparse(visit, spec.sparse);
  }
}

template <typename Visit>
void visit_job(Visit& visit, auto& spec) {
  visit(spec.num_workers);
  visit(spec.sync);
  visit(spec.keeps_last_step);
  visit(spec.geo);
}

template <typename Spec>
void visit_fields(auto& visit, Spec& spec) {
  if constexpr (std::is_same_v<std::remove_const_t<Spec>, JobSpec>) {
    visit_job(visit, spec);
  } else {
    visit_table(visit, spec);
  }
}

std::string encode_fields(const auto& spec) {
  ByteWriter out;
  FieldWriter visit{out};
  visit_fields(visit, spec);
  return out.take();
}

template <typename Spec>
Spec decode_fields(std::string_view bytes, const char* what) {
  ByteReader in(bytes, what);
  FieldReader visit{in};
  Spec spec;
  visit_fields(visit, spec);
  in.end();
  return spec;
}

} // namespace

std::string encode(const JobSpec& spec) {
  return encode_fields(spec);
}

JobSpec decode_job(std::string_view bytes) {
  return decode_fields<JobSpec>(bytes, "job");
}

std::string encode(const TableSpec& spec) {
  return encode_fields(spec);
}

TableSpec decode_table(std::string_view bytes) {
  return decode_fields<TableSpec>(bytes, "table");
}

void check_same(const TableSpec& existing, const TableSpec& spec) {
  ARGOSY_CHECK(
      existing == spec,
      "[ps.create_table] table {} ('{}') exists with another configuration",
      spec.id(),
      spec.name());
}

void check(const JobSpec& spec) {
  ARGOSY_CHECK(
      spec.num_workers >= 1 && spec.num_workers <= 65536,
      "[ps.job] {} workers, expected 1 to 65536",
      spec.num_workers);
  ARGOSY_CHECK(
      !(spec.sync && spec.geo),
      "[ps.job] sync and geo, expected at most one of them");
}

void check(const TableSpec& spec) {
  ARGOSY_CHECK(
      spec.id() >= 0,
      "[ps.table] table '{}' has id {}, expected 0 or more",
      spec.name(),
      spec.id());
  if (!spec.is_dense) {
    check(spec.sparse);
    return;
  }
  check(spec.dense);
  ARGOSY_CHECK(
      spec.dense_size >= 1 && spec.dense_size <= (std::uint64_t{1} << 40),
      "[ps.table] dense table '{}' of {} elements, expected 1 to 2^40",
      spec.name(),
      spec.dense_size);
}

} // namespace argosy::ps
