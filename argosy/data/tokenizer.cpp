#include "argosy/data/tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/bpe.h"

namespace argosy::data {

namespace {

constexpr const char* kFormat = "argosy.tokenizer";
// A token is a part of a word.
constexpr std::size_t kMostTokenBytes = std::size_t{1} << 20;
constexpr std::size_t kMostBytes = std::size_t{1} << 30; // of all tokens

enum class Kind { Space, Letter, Digit, Mark };

Kind kind_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte == ' ' || (byte >= '\t' && byte <= '\r')) {
    return Kind::Space;
  }
  if (byte >= '0' && byte <= '9') {
    return Kind::Digit;
  }
  const unsigned char lower = byte | 0x20U;
  // Bytes above 127 belong to UTF-8 sequences, which a word must not split.
  return byte > 127 || (lower >= 'a' && lower <= 'z') ? Kind::Letter
                                                      : Kind::Mark;
}

// Returns the end of the word that starts at `begin`.
std::size_t word_end(std::string_view text, std::size_t begin) {
  std::size_t at = begin;
  if (text[at] == ' ' && at + 1 < text.size()) {
    ++at; // belongs to the next word, unless that is white space
  }
  const Kind kind = kind_of(text[at]);
  while (at < text.size() && kind_of(text[at]) == kind) {
    ++at;
  }
  return at;
}

} // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(text, begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

Tokenizer::Tokenizer(std::vector<Merge> merges) : merges_(std::move(merges)) {
  for (int byte = 0; byte < kNumBytes; ++byte) {
    bytes_of_.emplace_back(1, static_cast<char>(byte));
  }
  std::size_t all_bytes = 0;
  for (const auto& [left, right] : merges_) {
    // A merge may use only tokens before it, whose bytes are known by now.
    const auto known = static_cast<std::int32_t>(bytes_of_.size());
    ARGOSY_CHECK(
        left >= 0 && left < known && right >= 0 && right < known,
        "[data.tokenizer] token {} is made of {} and {}, expected 0 to {}",
        known,
        left,
        right,
        known - 1);
    // A file of some bytes could name tokens that double from one to the next.
    const std::size_t bytes = bytes_of_[left].size() + bytes_of_[right].size();
    all_bytes += bytes;
    ARGOSY_CHECK(
        bytes <= kMostTokenBytes && all_bytes <= kMostBytes,
        "[data.tokenizer] token {} has {} bytes, all up to it {}, expected at "
        "most {} and {}",
        known,
        bytes,
        all_bytes,
        kMostTokenBytes,
        kMostBytes);
    bytes_of_.push_back(bytes_of_[left] + bytes_of_[right]);
  }
}

Tokenizer Tokenizer::train(std::string_view text, std::int64_t vocab_size) {
  ARGOSY_CHECK(
      vocab_size >= kNumBytes &&
          vocab_size <= std::numeric_limits<std::int32_t>::max(),
      "[data.tokenizer] vocab_size {}, expected 256 or more",
      vocab_size);
  std::map<std::string_view, std::int64_t> counts;
  for (const auto word : split_words(text)) {
    ++counts[word];
  }
  return Tokenizer(
      learn_merges(counts, static_cast<std::size_t>(vocab_size - kNumBytes)));
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(bytes_of_.size());
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text) const {
  const MergeTable table(merges_);
  std::unordered_map<std::string_view, std::vector<std::int32_t>> known;
  std::vector<std::int64_t> ids;
  for (const auto word : split_words(text)) {
    // Words repeat, so each is encoded once per call.
    auto [found, is_new] = known.try_emplace(word);
    if (is_new) {
      found->second = table.encode(word);
    }
    ids.insert(ids.end(), found->second.begin(), found->second.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) {
    ARGOSY_CHECK(
        id >= 0 && id < vocab_size(),
        "[data.tokenizer] token {}, expected 0 to {}",
        id,
        vocab_size() - 1);
    text += bytes_of_[static_cast<std::size_t>(id)];
  }
  return text;
}

void Tokenizer::save(const std::filesystem::path& path) const {
  const nlohmann::json file{
      {"format", kFormat}, {"version", 1}, {"merges", merges_}};
  write_file(path, file.dump());
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) {
    throw SystemError(
        str("[data.tokenizer] ", path.string(), ": no such file"));
  }
  try {
    const auto file = nlohmann::json::parse(*text);
    ARGOSY_CHECK(
        file.at("format") == kFormat && file.at("version") == 1,
        "[data.tokenizer] {}: another format, expected {} version 1",
        path.string(),
        kFormat);
    return Tokenizer(file.at("merges").get<std::vector<Merge>>());
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(
        str("[data.tokenizer] ", path.string(), ": ", error.what()));
  }
}

} // namespace argosy::data
