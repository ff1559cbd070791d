#pragma once

#include <memory>
#include <string>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace argosy::ps {

class Client;

// Writes the configurations of a client's sparse tables beside their files.
void write_table_specs(const Client& client, const std::string& folder);

// Writes what torch::save() would, without the weights that are tables.
void save_dense_weights(
    const torch::nn::Module& module, const std::string& file);

// Reads what fleet::save_inference_model() wrote into a plain model of the same
// structure, as programs without servers have: weights and buffers, and the
// rows of tables into the weights of Embedding and EmbeddingBag modules that
// they were. Rows that were never trained are zeros. Throws CheckpointError,
// naming the file, and InvalidArgument for a module that does not fit.
void load_inference_model(const std::string& folder, torch::nn::Module& module);

// Tables that fleet::save_inference_model() wrote, for programs without
// servers.
class SavedTables {
 public:
  // Reads all tables. Throws CheckpointError, naming the file.
  explicit SavedTables(const std::string& folder);
  ~SavedTables();

  bool has(const std::string& table) const;

  // Rows of a tensor of ids; zeros for ids that have none, and for
  // `padding_idx`. Throws InvalidArgument for tables that do not exist.
  at::Tensor lookup(
      const std::string& table,
      const at::Tensor& ids,
      std::int64_t padding_idx = -1);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::ps
