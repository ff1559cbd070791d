#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace argosy::data {

// Byte-pair encoding on bytes: tokens 0 to 255 are the bytes, each further one
// two earlier tokens in a row. Any bytes can be encoded, and
// decode(encode(x)) == x. Without merges it is the byte-level tokenizer.
// Constant, so that any number of threads may use it.
class Tokenizer {
 public:
  using Merge = std::pair<std::int32_t, std::int32_t>;

  static constexpr std::int64_t kNumBytes = 256;

  // Token 256 + i is made of merges[i]. Throws InvalidArgument for a merge of a
  // token that does not exist yet.
  explicit Tokenizer(std::vector<Merge> merges = {});

  // Learns up to `vocab_size` tokens from a text: again and again the pair of
  // neighbours that is most frequent becomes a token; among equals the one of
  // the smallest tokens. Fewer when no pair is left that occurs twice. The
  // same text gives the same tokenizer everywhere. Tokens do not cross words
  // (see split_words()).
  static Tokenizer train(std::string_view text, std::int64_t vocab_size);

  std::int64_t vocab_size() const;
  const std::vector<Merge>& merges() const { return merges_; }

  std::vector<std::int64_t> encode(std::string_view text) const;

  // Throws InvalidArgument for an id outside the vocabulary.
  std::string decode(std::span<const std::int64_t> ids) const;

  // A JSON file. Throw SystemError, and load() InvalidArgument when the file is
  // none of these.
  void save(const std::filesystem::path& path) const;
  static Tokenizer load(const std::filesystem::path& path);

  bool operator==(const Tokenizer& other) const {
    return merges_ == other.merges_;
  }

 private:
  std::vector<Merge> merges_;
  std::vector<std::string> bytes_of_; // by id
};

// Cuts a text into words, which put together are the text: letters (and all
// bytes above 127, so that no UTF-8 character is cut), digits, or other marks,
// with the space before them, or a run of white space.
std::vector<std::string_view> split_words(std::string_view text);

} // namespace argosy::data
