#include "argosy/ps/table/row_layout.h"

namespace argosy::ps {

namespace {

RowLayout embedding_layout(const SparseConfig& config) {
  RowLayout layout;
  layout.embedx_dim = config.embedx_dim;
  layout.embedx_state_size =
      state_size(config.embedx_rule.rule, config.embedx_dim);
  layout.embedx_state = config.embedx_dim;
  layout.full_words = layout.embedx_state + layout.embedx_state_size;
  layout.pending_words = layout.full_words == 1 ? 2 : 1;
  layout.pull_dim = config.embedx_dim;
  layout.push_dim = config.embedx_dim;
  return layout;
}

void set_outside(const SparseConfig& config, RowLayout& layout) {
  const bool shows = config.accessor != Accessor::Sparse;
  layout.pull_embed = shows ? 2 : 0;
  layout.pull_embedx = layout.pull_embed + 1;
  layout.pull_dim = layout.pull_embedx + config.embedx_dim;
  layout.push_show = 1;
  layout.push_embed = 3;
  layout.push_embedx = 4;
  layout.push_dim = layout.push_embedx + config.embedx_dim;
}

} // namespace

RowLayout row_layout(const SparseConfig& config) {
  if (config.accessor == Accessor::Embedding) {
    return embedding_layout(config);
  }
  RowLayout layout;
  layout.doubles = config.accessor == Accessor::CtrDouble;
  layout.embedx_dim = config.embedx_dim;
  layout.embed_state_size = state_size(config.embed_rule.rule, 1);
  layout.embedx_state_size =
      state_size(config.embedx_rule.rule, config.embedx_dim);
  const int number = layout.doubles ? 2 : 1;
  layout.slot = 0;
  layout.seen_day = 1;
  layout.delta_score = 2;
  layout.show = 3;
  layout.click = layout.show + number;
  layout.embed_w = layout.click + number;
  layout.embed_state = layout.embed_w + 1;
  layout.embedx_w = layout.embed_state + layout.embed_state_size;
  layout.base_words = layout.embedx_w;
  layout.embedx_state = layout.embedx_w + config.embedx_dim;
  layout.full_words = layout.embedx_state + layout.embedx_state_size;
  set_outside(config, layout);
  return layout;
}

} // namespace argosy::ps
