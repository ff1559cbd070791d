#pragma once

#include <memory>
#include <string>

namespace at {
class Tensor;
}

namespace argosy::ps {

class Client;

// Writes the configurations of a client's sparse tables beside their files.
void write_table_specs(const Client& client, const std::string& folder);

// Tables that fleet::save_inference_model() wrote, for programs without
// servers.
class SavedTables {
 public:
  // Reads all tables. Throws CheckpointError, naming the file.
  explicit SavedTables(const std::string& folder);
  ~SavedTables();

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
