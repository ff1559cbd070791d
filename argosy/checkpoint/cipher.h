#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "argosy/checkpoint/manifest.h"

// AES-256-GCM for the bytes of checkpoints, by OpenSSL.
namespace argosy::checkpoint {

// 32 bytes that the user keeps.
class Key {
 public:
  // Throws InvalidArgument unless there are 32 bytes.
  explicit Key(std::span<const std::byte> bytes);
  // Reads 32 bytes, or 64 hex digits, of a file that others cannot read. Throws
  // InvalidArgument otherwise.
  static Key of_file(const std::string& path);
  ~Key(); // wipes the bytes

  std::span<const std::byte> bytes() const;

 private:
  std::shared_ptr<std::byte[]> bytes_;
};

// Encrypts and decrypts the chunks of one checkpoint. Thread-safe.
class Cipher {
 public:
  // For a new checkpoint: draws the salt.
  explicit Cipher(const Key& key);
  // For an existing one. Throws CheckpointError for another key than it was
  // written with.
  Cipher(const Key& key, const Encryption& encryption);
  ~Cipher();

  const Encryption& encryption() const;

  // In place. A chunk is known by its file and its offset in it, which must not
  // repeat within a checkpoint. Returns the tag.
  Hash128 encrypt(
      std::uint32_t file,
      std::uint64_t offset,
      std::span<std::byte> bytes) const;
  // Throws CheckpointError if the bytes or the tag were changed.
  void decrypt(
      std::uint32_t file,
      std::uint64_t offset,
      std::span<std::byte> bytes,
      const Hash128& tag) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::checkpoint
