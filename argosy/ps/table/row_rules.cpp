#include "argosy/ps/table/row_rules.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace argosy::ps {

namespace {

// Sums begin at zero, powers of beta at beta.
void init_state(const RuleConfig& config, float* state, int size) {
  std::fill_n(state, size, 0.0f);
  if (config.rule == Rule::Adam || config.rule == Rule::SharedAdam) {
    state[size - 2] = config.beta1;
    state[size - 1] = config.beta2;
  }
}

void clamp_weights(const RuleConfig& config, std::span<float> weights) {
  for (float& weight : weights) {
    weight = std::clamp(weight, config.min_weight, config.max_weight);
  }
}

bool has_slot(const std::vector<float>& slots, float slot) {
  return std::find(slots.begin(), slots.end(), slot) != slots.end();
}

} // namespace

float KeyRandom::chance(
    std::uint64_t key, std::span<const float> record) const {
  std::uint64_t bits = stream(key, For::Admission);
  for (const float value : record) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    bits = mix(bits ^ word) + kStep;
  }
  return unit(mix(bits));
}

RowRules::RowRules(const SparseConfig& config)
    : config_(config),
      layout_(row_layout(config)),
      random_(config.seed, config.table_id),
      kernels_(&rule_kernels(simd::current_isa())),
      update_embed_(
          kernels_->update_row[static_cast<int>(config.embed_rule.rule)]),
      update_embedx_(
          kernels_->update_row[static_cast<int>(config.embedx_rule.rule)]) {}

void RowRules::set_learning_rate(float rate) {
  config_.embed_rule.learning_rate = rate;
  config_.embedx_rule.learning_rate = rate;
}

std::size_t RowRules::words(RowKind kind) const {
  const int counts[] = {
      layout_.full_words, layout_.base_words, layout_.pending_words};
  return static_cast<std::size_t>(counts[static_cast<int>(kind)]);
}

std::optional<RowKind> RowRules::kind_of(std::size_t num_words) const {
  for (int kind = 0; kind < kRowKinds; ++kind) {
    if (num_words > 0 && words(static_cast<RowKind>(kind)) == num_words) {
      return static_cast<RowKind>(kind);
    }
  }
  return std::nullopt;
}

double RowRules::number(const float* words, int at) const {
  if (!layout_.doubles) {
    return words[at];
  }
  double value;
  std::memcpy(&value, words + at, sizeof(value));
  return value;
}

void RowRules::set_number(float* words, int at, double value) const {
  if (!layout_.doubles) {
    words[at] = static_cast<float>(value);
    return;
  }
  std::memcpy(words + at, &value, sizeof(value));
}

float RowRules::score(const float* words) const {
  if (layout_.doubles) {
    return static_cast<float>(config_.ctr.score(show(words), click(words)));
  }
  return config_.ctr.score(words[layout_.show], words[layout_.click]);
}

void RowRules::create(std::uint64_t key, float day, float* words) const {
  if (!layout_.has_ctr()) {
    create_embedx(key, words);
    return;
  }
  words[layout_.slot] = -1;
  words[layout_.seen_day] = day;
  words[layout_.delta_score] = 0;
  set_number(words, layout_.show, 0);
  set_number(words, layout_.click, 0);
  const std::span<float> embed(words + layout_.embed_w, 1);
  const float range =
      config_.ctr.zero_init ? 0 : config_.embed_rule.initial_range;
  random_.fill(key, KeyRandom::For::Embed, range, embed);
  clamp_weights(config_.embed_rule, embed);
  init_state(
      config_.embed_rule,
      words + layout_.embed_state,
      layout_.embed_state_size);
}

void RowRules::create_embedx(std::uint64_t key, float* words) const {
  const std::span<float> weights(
      words + layout_.embedx_w, static_cast<std::size_t>(layout_.embedx_dim));
  random_.fill(
      key, KeyRandom::For::Embedx, config_.embedx_rule.initial_range, weights);
  clamp_weights(config_.embedx_rule, weights);
  init_state(
      config_.embedx_rule,
      words + layout_.embedx_state,
      layout_.embedx_state_size);
}

void RowRules::select(RowKind kind, const float* words, float* out) const {
  const auto dim = static_cast<std::size_t>(layout_.embedx_dim);
  float* const embedx = out + layout_.pull_embedx;
  if (kind == RowKind::Full) {
    std::memcpy(embedx, words + layout_.embedx_w, dim * sizeof(float));
  } else {
    std::fill_n(embedx, dim, 0.0f);
  }
  if (layout_.pull_embed < 0) {
    return;
  }
  if (layout_.pull_embed == 2) {
    out[0] = static_cast<float>(show(words));
    out[1] = static_cast<float>(click(words));
  }
  out[layout_.pull_embed] = words[layout_.embed_w];
}

void RowRules::select_unknown(std::uint64_t key, float* out) const {
  if (config_.unknown_key == UnknownKey::Zeros || !admits_all()) {
    std::fill_n(out, layout_.pull_dim, 0.0f);
    return;
  }
  std::vector<float> words(static_cast<std::size_t>(layout_.full_words));
  create(key, 0, words.data());
  select(first_kind(), words.data(), out);
}

void RowRules::update(
    RowKind kind, float* words, const float* record, float day) const {
  float scale = 1;
  if (layout_.has_ctr()) {
    const float shown = record[layout_.push_show];
    const float clicked = record[layout_.push_show + 1];
    set_number(words, layout_.show, show(words) + shown);
    set_number(words, layout_.click, click(words) + clicked);
    words[layout_.slot] = record[0];
    words[layout_.seen_day] = day;
    words[layout_.delta_score] += config_.ctr.score(shown, clicked);
    // A record without shows has nothing to be divided by.
    scale = config_.ctr.show_scale && shown > 0 ? shown : 1;
    update_embed_(
        config_.embed_rule,
        {words + layout_.embed_w,
         words + layout_.embed_state,
         record + layout_.push_embed,
         1,
         scale});
  }
  if (kind == RowKind::Full) {
    update_embedx_(
        config_.embedx_rule,
        {words + layout_.embedx_w,
         words + layout_.embedx_state,
         record + layout_.push_embedx,
         static_cast<std::size_t>(layout_.embedx_dim),
         scale});
  }
}

void RowRules::select(const RowGroup& group, float* out) const {
  kernels_->copy_rows(
      {group.words,
       group.count,
       out,
       static_cast<std::size_t>(layout_.embedx_dim)});
}

void RowRules::update(const RowGroup& group, const float* records) const {
  const auto rule = static_cast<int>(config_.embedx_rule.rule);
  kernels_->update_rows[rule](
      config_.embedx_rule,
      {group.words,
       group.count,
       records,
       static_cast<std::size_t>(layout_.embedx_dim)});
}

bool RowRules::wants_embedx(const float* words) const {
  return score(words) >= config_.embedx_threshold;
}

bool RowRules::admits(
    std::uint64_t key, std::span<const float> record, double seen) const {
  const Entry& entry = config_.entry;
  if (entry.kind == Entry::Kind::CountFilter &&
      seen < static_cast<double>(entry.count)) {
    return false;
  }
  if (entry.kind == Entry::Kind::Probability &&
      random_.chance(key, record) >= entry.probability) {
    return false;
  }
  if (!config_.create_by_score || !layout_.has_ctr()) {
    return true;
  }
  const float worth = config_.ctr.score(
      record[static_cast<std::size_t>(layout_.push_show)],
      record[static_cast<std::size_t>(layout_.push_show) + 1]);
  return worth >= 1 || (worth > 0 && random_.chance(key, record) < worth);
}

bool RowRules::admits_all() const {
  return config_.entry.kind == Entry::Kind::None ||
      config_.entry.kind == Entry::Kind::ShowClick;
}

bool RowRules::shrink(RowKind kind, float* words, float day) const {
  if (!layout_.has_ctr()) {
    return false;
  }
  const float decay = config_.ctr.show_click_decay_rate;
  if (kind == RowKind::Pending) {
    words[0] *= decay;
    return words[0] < config_.ctr.delete_threshold;
  }
  set_number(words, layout_.show, show(words) * decay);
  set_number(words, layout_.click, click(words) * decay);
  return score(words) < config_.ctr.delete_threshold ||
      unseen(words, day) > config_.ctr.delete_after_unseen_days;
}

bool RowRules::cold(const float* words, float day) const {
  return layout_.has_ctr() &&
      unseen(words, day) >
      static_cast<float>(config_.ctr.ssd_unseenday_threshold);
}

bool RowRules::saved(
    SaveMode mode, RowKind kind, const float* words, float day) const {
  if (mode == SaveMode::Checkpoint || mode == SaveMode::BatchModel) {
    return true;
  }
  if (kind == RowKind::Pending || !layout_.has_ctr()) {
    return kind != RowKind::Pending;
  }
  const float threshold =
      mode == SaveMode::Base ? 0 : config_.ctr.delta_threshold;
  return score(words) >= config_.ctr.base_threshold &&
      words[layout_.delta_score] >= threshold &&
      unseen(words, day) <= config_.ctr.delta_keep_days &&
      !has_slot(config_.ctr.save_filter_slots, words[layout_.slot]);
}

void RowRules::to_outside(RowKind kind, float* words, float day) const {
  if (layout_.has_ctr() && kind != RowKind::Pending) {
    words[layout_.seen_day] = unseen(words, day);
  }
}

void RowRules::to_inside(RowKind kind, float* words, float day) const {
  to_outside(kind, words, day); // day - (day - seen) is seen
}

bool RowRules::load_filtered(RowKind kind, const float* words) const {
  return layout_.has_ctr() && kind != RowKind::Pending &&
      has_slot(config_.ctr.load_filter_slots, words[layout_.slot]);
}

} // namespace argosy::ps
