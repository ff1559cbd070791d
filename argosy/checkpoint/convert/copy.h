#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "argosy/checkpoint/convert/convert.h"
#include "argosy/checkpoint/import/tensor_reader.h"
#include "argosy/fs/file_system.h"

// What the writers of all formats share.
namespace argosy::checkpoint {

// Reads tensors by chunks, and tells how far it is.
class ChunkCopier {
 public:
  ChunkCopier(const CopyContext& context, std::uint64_t total);

  void begin_file(std::string name) { progress_.what = std::move(name); }

  // Called with each chunk: elements [begin, end) of the box. May change it.
  using Take = std::function<void(
      std::int64_t begin, std::int64_t end, std::span<std::byte> bytes)>;
  void copy(const SourceTensor& tensor, const Box& box, const Take& take);

 private:
  const CopyContext& context_;
  TensorReader reader_;
  Progress progress_;
  std::vector<std::byte> buffer_;
};

// Opens a file that must not exist yet.
std::unique_ptr<fs::Writer> create_file(
    const fs::Location& file, std::uint64_t bytes);
// Makes a folder that must not exist yet, or be empty.
void create_folder(const fs::Location& folder);

void write_bytes(fs::Writer& out, std::span<const std::byte> bytes);
void write_bytes(fs::Writer& out, std::string_view bytes);
void commit(fs::Writer& out);

// Removes what was created, unless keep() was called: conversions that fail
// leave nothing behind.
class Cleanup {
 public:
  explicit Cleanup(fs::Location location) : location_(std::move(location)) {}
  ~Cleanup();
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;

  void keep() { kept_ = true; }

 private:
  const fs::Location location_;
  bool kept_ = false;
};

} // namespace argosy::checkpoint
