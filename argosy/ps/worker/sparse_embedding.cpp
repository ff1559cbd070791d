#include "argosy/ps/worker/sparse_embedding.h"

#include <utility>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

SparseConfig config_of(const SparseEmbeddingOptions& options) {
  ARGOSY_CHECK(
      !options.name.empty() && options.dim >= 1,
      "[ps.sparse_embedding] table '{}' of dim {}, expected a name and at "
      "least 1",
      options.name,
      options.dim);
  SparseConfig config = embedding_config(options.dim, options.rule);
  config.name = options.name;
  config.entry = options.entry;
  config.seed = options.seed;
  config.on_ssd = options.on_ssd;
  config.ssd = options.ssd;
  // The worker sees the values that a row will begin with.
  config.unknown_key = UnknownKey::InitialValues;
  return config;
}

} // namespace

SparseEmbeddingImpl::SparseEmbeddingImpl(
    std::shared_ptr<Session> session, SparseEmbeddingOptions options)
    : session_(std::move(session)),
      options_(std::move(options)),
      table_(session_->add_table(config_of(options_), options_.cache)) {}

at::Tensor SparseEmbeddingImpl::forward(const at::Tensor& ids) {
  return session_->lookup(
      table_,
      ids,
      {.padding_idx = options_.padding_idx, .is_test = !is_training()});
}

void SparseEmbeddingImpl::prefetch(const at::Tensor& ids) {
  session_->prefetch(table_, ids);
}

at::Tensor sparse_embedding(
    Session& session,
    const at::Tensor& ids,
    const SparseEmbeddingOptions& options,
    bool is_test) {
  return session.lookup(
      session.add_table(config_of(options), options.cache),
      ids,
      {.padding_idx = options.padding_idx, .is_test = is_test});
}

} // namespace argosy::ps
