#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace argosy::data {

// Byte-level byte-pair encoding: tokens 0 to 255 are the bytes, each further
// token is the concatenation of two earlier ones. Any bytes can be encoded, and
// decode(encode(x)) == x. Without merges, each byte is a token. Immutable,
// hence thread-safe.
class Tokenizer {
 public:
  using Merge = std::pair<std::int32_t, std::int32_t>;

  static constexpr std::int64_t kNumBytes = 256;

  // Token 256 + i is the concatenation merges[i]. Throws InvalidArgument if a
  // merge uses a token that is not defined before it.
  explicit Tokenizer(std::vector<Merge> merges = {});

  // Learns up to `vocab_size` tokens from a text by repeatedly merging the most
  // frequent pair of adjacent tokens; ties go to the smallest tokens. Stops
  // when no pair occurs twice. Deterministic on all platforms. Tokens do not
  // cross word boundaries (see split_words()).
  static Tokenizer train(std::string_view text, std::int64_t vocab_size);

  std::int64_t vocab_size() const;
  const std::vector<Merge>& merges() const { return merges_; }

  std::vector<std::int64_t> encode(std::string_view text) const;

  // Throws InvalidArgument for an id outside the vocabulary.
  std::string decode(std::span<const std::int64_t> ids) const;

  // Write and read a JSON file. Throw SystemError; load() throws
  // InvalidArgument when the file is not a tokenizer.
  void save(const std::filesystem::path& path) const;
  static Tokenizer load(const std::filesystem::path& path);

  bool operator==(const Tokenizer& other) const {
    return merges_ == other.merges_;
  }

 private:
  std::vector<Merge> merges_;
  std::vector<std::string> bytes_of_; // by id
};

// Splits a text into words whose concatenation is the text: runs of letters
// (including all bytes above 127, so that UTF-8 characters stay whole), of
// digits or of punctuation, each with one preceding space, or runs of white
// space.
std::vector<std::string_view> split_words(std::string_view text);

} // namespace argosy::data
