#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace argosy::checkpoint {

// Makes damaged inputs of good ones.
class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, unsigned seed)
      : corpus_(std::move(corpus)), generator_(seed) {}

  // One of the corpus with one to four changes.
  std::string next() {
    std::string text = pick(corpus_);
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      change(text);
    }
    return text;
  }

 private:
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(generator_);
  }

  const std::string& pick(const std::vector<std::string>& from) {
    return from[below(from.size())];
  }

  void change(std::string& text) {
    if (text.empty()) {
      text = pick(corpus_);
    }
    const std::size_t at = below(text.size());
    switch (below(7)) {
      case 0: // a flipped bit
        text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      case 1: // cut off
        text.resize(at);
        break;
      case 2: // a part is gone
        text.erase(at, 1 + below(40));
        break;
      case 3: // a part is there twice, or somewhere else
        text.insert(below(text.size()), text.substr(at, 1 + below(60)));
        break;
      case 4: { // the rest is that of another
        const std::string& other = pick(corpus_);
        text = text.substr(0, at) + other.substr(below(other.size()));
        break;
      }
      case 5: // a token that JSON has
        text.insert(at, pick(tokens_));
        break;
      default:
        change_number(text, at);
    }
  }

  void change_number(std::string& text, std::size_t from) {
    const std::size_t begin = text.find_first_of("0123456789", from);
    if (begin == std::string::npos) {
      return;
    }
    const std::size_t end =
        std::min(text.find_first_not_of("0123456789", begin), text.size());
    text.replace(begin, end - begin, pick(numbers_));
  }

  std::vector<std::string> corpus_;
  std::mt19937 generator_;
  std::vector<std::string> tokens_ = {
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      "\"",
      "\\",
      "null",
      "true",
      "[[[[",
      "{}",
      "\"a\":1,",
      "\xff",
      "\\u0000",
      std::string(200, '['),
      std::string(1, '\0')};
  std::vector<std::string> numbers_ = {
      "0",
      "1",
      "2",
      "-1",
      "7",
      "00",
      "1.5",
      "1e9",
      "255",
      "4096",
      "4294967296",
      "9223372036854775807",
      "9223372036854775808",
      "18446744073709551616",
      "99999999999999999999999999",
      "1e999",
      "3037000500"};
};

} // namespace argosy::checkpoint
