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

// Megatron's pair of files: the tokens in <prefix>.bin, and in <prefix>.idx
// where the sequences lie and which of them make up a document. Copies share
// the mappings; any number of threads may read.
class MegatronFile {
 public:
  // `path` is the prefix, or either file. Both files are checked as a whole.
  // Throws SystemError, or InvalidArgument with file, offset and what was
  // expected.
  explicit MegatronFile(const std::filesystem::path& path);

  // All of the .bin file.
  const Tokens& tokens() const { return tokens_; }

  std::int64_t num_sequences() const { return num_sequences_; }
  Tokens sequence(std::int64_t index) const;

  std::int64_t num_documents() const { return num_documents_; }
  // The sequences [first, second) of a document.
  std::pair<std::int64_t, std::int64_t> document(std::int64_t index) const;

 private:
  void check_sequences() const;
  void check_documents() const;

  Tokens tokens_;
  std::shared_ptr<const MappedFile> index_;
  std::int64_t num_sequences_ = 0;
  std::int64_t num_documents_ = 0;
  // Parts of the index, not aligned.
  std::span<const std::byte> lengths_;   // int32 each
  std::span<const std::byte> offsets_;   // int64 each, in bytes of the .bin
  std::span<const std::byte> documents_; // int64 each, one more than documents
};

// The type that Megatron chooses for a vocabulary.
TokenType megatron_type(std::int64_t vocab_size);

// Writes such a pair. Tokens go to the disc as they come; the index, and with
// it a readable pair, exists after finish(). Not thread-safe.
class MegatronWriter {
 public:
  // Throws SystemError.
  MegatronWriter(std::filesystem::path prefix, TokenType type);
  ~MegatronWriter(); // without finish() nothing is left behind
  MegatronWriter(const MegatronWriter&) = delete;
  MegatronWriter& operator=(const MegatronWriter&) = delete;

  // Throws InvalidArgument for a token that the type cannot hold.
  void add_sequence(std::span<const std::int64_t> tokens);

  // The sequences since the last call are a document.
  void end_document();

  // Throws SystemError, and InvalidArgument when sequences are left that belong
  // to no document.
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
