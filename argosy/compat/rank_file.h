#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"

// Files that one rank saved: safetensors, and MindSpore's older .ckpt to read.
namespace argosy::compat {

// A file that is mapped into memory. Spans live as long as it does.
class RankFile {
 public:
  struct Entry {
    checkpoint::TensorInfo info;
    std::span<const std::byte> bytes;
  };

  // Throws CheckpointError, naming the file, when it is missing or not a valid
  // checkpoint (of .ckpt: encrypted, with hash tables).
  explicit RankFile(const std::filesystem::path& path);
  ~RankFile();
  RankFile(RankFile&&) noexcept;
  RankFile& operator=(RankFile&&) noexcept;

  const std::string& path() const;
  const std::map<std::string, Entry>& tensors() const;
  const std::map<std::string, std::string>& metadata() const;

  // Null if it has no tensor of this name.
  const Entry* find(const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::size_t bytes_of(const checkpoint::TensorInfo& info);

// A tensor to write, of which there is one in memory at a time.
struct TensorSource {
  checkpoint::TensorInfo info; // of what is written
  std::function<void(std::span<std::byte>)> fill;
  // Where it is in the whole, if it is a slice: goes into the metadata.
  std::optional<checkpoint::Shape> whole;
  checkpoint::Box box;
};

// Writes a safetensors file, and its folder, atomically: by renaming a
// temporary file. Throws CheckpointError.
void write_rank_file(
    const std::filesystem::path& path,
    std::vector<TensorSource> tensors,
    std::map<std::string, std::string> metadata = {});

// The file of a folder that counts: the last *.safetensors, or *.ckpt if there
// are none, by name; numbers in names count as numbers, so 10 follows 9.
// nullopt if there is none.
std::optional<std::filesystem::path> last_file_of(
    const std::filesystem::path& folder);

// Whether `a` comes before `b` where numbers count as numbers.
bool natural_less(std::string_view a, std::string_view b);

} // namespace argosy::compat
