#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "argosy/ps/table/config.h"
#include "argosy/ps/worker/session.h"

namespace argosy::ps {

struct SparseEmbeddingOptions {
  std::string name; // of the table; modules of one name share it
  int dim = 8;
  std::int64_t padding_idx = -1; // gives zeros and gets no gradient
  Entry entry{};                 // which ids get rows
  RuleConfig rule{};             // how servers update rows
  std::uint64_t seed = 0;        // of initial values
  CacheOptions cache{};
  bool on_ssd = false; // SSDSparseTable; `ssd` says where
  SsdConfig ssd{};
};

// An embedding whose rows are on parameter servers: any ids from 0 on, rows
// appear as they are trained. The worker holds those of the current batch only.
// It has no parameters; Session::step() takes its gradients.
class SparseEmbeddingImpl : public torch::nn::Module {
 public:
  // All workers make the same modules in the same order.
  SparseEmbeddingImpl(
      std::shared_ptr<Session> session, SparseEmbeddingOptions options);

  // [...] of integers to [..., dim]. In eval() no rows are made, and none get
  // gradients.
  at::Tensor forward(const at::Tensor& ids);

  // Starts to pull the rows of the next batch.
  void prefetch(const at::Tensor& ids);

  std::uint32_t table() const { return table_; }
  const SparseEmbeddingOptions& options() const { return options_; }

 private:
  std::shared_ptr<Session> session_;
  SparseEmbeddingOptions options_;
  std::uint32_t table_;
};
TORCH_MODULE(SparseEmbedding);

// The rows of `ids` in the table that the options describe, which is made at
// the first call.
at::Tensor sparse_embedding(
    Session& session,
    const at::Tensor& ids,
    const SparseEmbeddingOptions& options,
    bool is_test = false);

} // namespace argosy::ps
