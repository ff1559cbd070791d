#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "argosy/ps/table/config.h"
#include "argosy/ps/table/initial_values.h"
#include "argosy/ps/table/row_layout.h"
#include "argosy/ps/table/row_store.h"
#include "argosy/ps/table/rule_kernels.h"
#include "argosy/ps/table/save_mode.h"

namespace argosy::ps {

// What an accessor does with the words of a row. Knows nothing of where rows
// stand.
class RowRules {
 public:
  explicit RowRules(const SparseConfig& config);

  const RowLayout& layout() const { return layout_; }
  const SparseConfig& config() const { return config_; }
  void set_learning_rate(float rate);

  // The kind of a row that is created.
  RowKind first_kind() const {
    return layout_.base_words > 0 ? RowKind::Base : RowKind::Full;
  }
  std::size_t words(RowKind kind) const;
  // nullopt: no row has so many words.
  std::optional<RowKind> kind_of(std::size_t num_words) const;

  // Values of a new row.
  void create(std::uint64_t key, float day, float* words) const;
  // Values of embedx, in a row that has its place now.
  void create_embedx(std::uint64_t key, float* words) const;

  // What a pull gives for a row, and for a key without one.
  void select(RowKind kind, const float* words, float* out) const;
  void select_unknown(std::uint64_t key, float* out) const;

  void update(RowKind kind, float* words, const float* record, float day) const;

  // Whether rows are weights and their state, and nothing else. Then these do
  // the same for a group of full rows, faster.
  bool weights_alone() const { return !layout_.has_ctr(); }
  void select(const RowGroup& group, float* out) const;
  void update(const RowGroup& group, const float* records) const;

  // Whether a row of kind Base is worth embedx now.
  bool wants_embedx(const float* words) const;

  // Whether a push creates a row. `seen` counts what a count filter counts.
  bool admits(
      std::uint64_t key, std::span<const float> record, double seen) const;
  // Whether the entry lets every id in, even by a pull.
  bool admits_all() const;
  // What a push adds to the count.
  float seen(const float* record) const {
    return layout_.push_show < 0 ? 1 : record[layout_.push_show];
  }

  // A day's decay; whether the row is to be removed then.
  bool shrink(RowKind kind, float* words, float day) const;
  // Whether the row has not been seen for long enough to leave memory.
  bool cold(const float* words, float day) const;

  // Whether a save of this mode has the row.
  bool saved(SaveMode mode, RowKind kind, const float* words, float day) const;

  // seen_day <-> unseen days of rows outside of tables.
  void to_outside(RowKind kind, float* words, float day) const;
  void to_inside(RowKind kind, float* words, float day) const;
  bool load_filtered(RowKind kind, const float* words) const;

 private:
  double show(const float* words) const { return number(words, layout_.show); }
  double click(const float* words) const {
    return number(words, layout_.click);
  }
  double number(const float* words, int at) const;
  void set_number(float* words, int at, double value) const;
  float score(const float* words) const;
  float unseen(const float* words, float day) const {
    return day - words[layout_.seen_day];
  }

  SparseConfig config_;
  RowLayout layout_;
  KeyRandom random_;
  const RuleKernels* kernels_;
  UpdateRow update_embed_;
  UpdateRow update_embedx_;
};

} // namespace argosy::ps
