#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "argosy/fs/open.h"

// Bytes that are read by ranges: files, parts of files, memory.
namespace argosy::checkpoint {

// Thread-safe: reads at given offsets share no state.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  virtual std::uint64_t size() const = 0;
  // For messages: the path, and what of it.
  virtual std::string name() const = 0;
  // Where the first byte lies in the file that name() names.
  virtual std::uint64_t base() const { return 0; }

  // Fills `to` with the bytes from `offset` on. Throws CheckpointError that
  // names the place if the source ends before, or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> to) const;

  // All bytes. Throws CheckpointError if there are more than `limit`.
  std::string read_all(std::uint64_t limit) const;

 private:
  virtual void do_read(std::uint64_t offset, std::span<std::byte> to) const = 0;
};

using Source = std::shared_ptr<const ByteSource>;

// A file of any file system. Throws CheckpointError if it cannot be opened.
Source open_source(const std::string& url);
Source open_source(const fs::Location& file);

// The bytes of an open local file. Takes the descriptor. `name` is for
// messages.
Source source_of_descriptor(int fd, const std::string& name);

Source source_of_bytes(std::string bytes, const std::string& name);

// `bytes` from `offset` on. Throws CheckpointError if `whole` has fewer.
Source slice(const Source& whole, std::uint64_t offset, std::uint64_t bytes);

} // namespace argosy::checkpoint
