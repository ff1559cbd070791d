#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "argosy/checkpoint/import/byte_source.h"
#include "argosy/checkpoint/import/pickle_value.h"

namespace argosy::checkpoint {

class ZipReader;

// A file of torch.save (as a zip file, or as it was before PyTorch 1.6) or of
// C++'s torch::save. Tensors are read from the file when asked for.
class TorchFile {
 public:
  // Throws CheckpointError that names the place for a damaged file and for
  // what may not be unpickled.
  explicit TorchFile(Source file);
  ~TorchFile();
  TorchFile(TorchFile&&) noexcept;

  const PickleValue& root() const { return *pickle_.root; }

  // Bytes of a storage; at least as many as the pickle says.
  Source storage(const PickleTensor& tensor);

 private:
  void read_zip();
  void read_legacy();

  Source file_;
  std::unique_ptr<ZipReader> zip_; // null for legacy files
  std::string prefix_;             // of the zip's entries: "archive/"
  Pickle pickle_;
  std::unordered_map<std::string, Source> storages_;
};

} // namespace argosy::checkpoint
