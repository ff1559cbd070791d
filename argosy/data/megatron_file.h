#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "argosy/data/tokens.h"

namespace argosy::data {

class MappedFile;

// Reads Megatron's pair of files: <prefix>.bin has the tokens, <prefix>.idx the
// offsets of sequences and the sequences of each document. Copies share the
// mappings. Thread-safe.
class MegatronFile {
 public:
  // `path` is the prefix or either file. Validates both files completely.
  // Throws SystemError, or InvalidArgument with file, offset and what was
  // expected.
  explicit MegatronFile(const std::filesystem::path& path);

  // All tokens of the .bin file.
  const Tokens& tokens() const { return tokens_; }

  std::int64_t num_sequences() const { return num_sequences_; }
  Tokens sequence(std::int64_t index) const;

  std::int64_t num_documents() const { return num_documents_; }
  // Returns the range [first, second) of sequences of a document.
  std::pair<std::int64_t, std::int64_t> document(std::int64_t index) const;

 private:
  void check_sequences() const;
  void check_documents() const;

  Tokens tokens_;
  std::shared_ptr<const MappedFile> index_;
  std::int64_t num_sequences_ = 0;
  std::int64_t num_documents_ = 0;
  // Unaligned arrays in the index.
  std::span<const std::byte> lengths_;   // int32 each
  std::span<const std::byte> offsets_;   // int64 each, in bytes of the .bin
  std::span<const std::byte> documents_; // int64 each; one more than documents
};

// The token type that Megatron uses for a vocabulary.
TokenType megatron_type(std::int64_t vocab_size);

// Writes such a pair of files. Tokens are written as they come; finish() writes
// the index, which makes the pair readable. Not thread-safe.
class MegatronWriter {
 public:
  // Throws SystemError.
  MegatronWriter(std::filesystem::path prefix, TokenType type);
  ~MegatronWriter(); // without finish(), removes the partial file
  MegatronWriter(const MegatronWriter&) = delete;
  MegatronWriter& operator=(const MegatronWriter&) = delete;

  // Throws InvalidArgument for a token that does not fit the type.
  void add_sequence(std::span<const std::int64_t> tokens);

  // Makes a document of the sequences added since the last call.
  void end_document();

  // Throws SystemError, and InvalidArgument if the last document is not ended.
  void finish();

 private:
  std::filesystem::path partial_path() const;
  void check_bin() const;
  std::string index() const;

  std::filesystem::path prefix_;
  TokenType type_;
  std::ofstream bin_; // <prefix>.bin.partial until finish()
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> documents_{0};
  bool finished_ = false;
};

} // namespace argosy::data
