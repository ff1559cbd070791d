#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::testing {

// The same on every machine: seeds the mutations that a failing input's number
// refers to.
inline constexpr std::uint64_t kFuzzSeed = 20240229;

// Makes broken inputs of good ones: flips bits, overwrites, inserts, removes,
// repeats, and joins the start of one with the end of another.
class Mutator {
 public:
  explicit Mutator(
      std::vector<std::string> corpus, std::uint64_t seed = kFuzzSeed)
      : corpus_(std::move(corpus)), random_(seed) {}

  std::string next() {
    std::string input = pick();
    // Mostly one change: many at once fail at the first check.
    for (std::uint64_t left = 1 + below(3) * below(3); left > 0; --left) {
      change(input);
    }
    return input;
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  const std::string& pick() { return corpus_[below(corpus_.size())]; }

  std::size_t position(const std::string& input) {
    return input.empty() ? 0 : below(input.size());
  }

  // Sizes and counts at the edges, little-endian as on the wire.
  std::string edge() {
    constexpr std::array<std::uint64_t, 10> kEdges = {
        0,
        1,
        0x7f,
        0xff,
        0xffff,
        0x7fffffff,
        0x80000000,
        0xffffffff,
        0x7fffffffffffffff,
        0xffffffffffffffff};
    const std::uint64_t value = kEdges[below(kEdges.size())];
    std::string bytes;
    for (std::size_t i = 0, size = std::size_t{1} << below(4); i < size; ++i) {
      bytes += static_cast<char>(value >> (8 * i) & 255);
    }
    return bytes;
  }

  void replace_number(std::string& input, std::size_t from) {
    constexpr std::array kNumbers = {
        "0",
        "1",
        "2",
        "-1",
        "65536",
        "1.5",
        "2147483648",
        "4294967297",
        "9223372036854775807",
        "18446744073709551615",
        "99999999999999999999",
        "1e400"};
    constexpr std::string_view kDigits = "0123456789";
    const std::size_t begin = input.find_first_of(kDigits, from);
    if (begin != std::string::npos) {
      const std::size_t end =
          std::min(input.find_first_not_of(kDigits, begin), input.size());
      input.replace(begin, end - begin, kNumbers[below(kNumbers.size())]);
    }
  }

  void change(std::string& input) {
    const std::size_t at = position(input);
    switch (below(11)) {
      case 0:
        if (!input.empty()) {
          input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        }
        break;
      case 1:
        if (!input.empty()) {
          input[at] = static_cast<char>(below(256));
        }
        break;
      case 2: {
        const std::string bytes = edge();
        input.replace(at, bytes.size(), bytes);
        break;
      }
      case 3:
        input.insert(at, 1 + below(5), static_cast<char>(below(256)));
        break;
      case 4:
        input.erase(at, 1 + below(8));
        break;
      case 5:
        input.resize(at);
        break;
      case 6: // decimal numbers of texts
        input.insert(at, std::to_string(random_() >> below(64)));
        break;
      case 7: // the same, so that what is around them stays in form
      case 8:
      case 9:
        replace_number(input, at);
        break;
      default:
        input = input.substr(0, at) + pick().substr(0, 1 + below(200));
        break;
    }
  }

  const std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

// Calls `fuzz` with one seed after the other for so long. A failure names its
// seed.
template <typename Fuzz>
void fuzz_for(std::chrono::seconds time, const Fuzz& fuzz) {
  const Deadline deadline = Deadline::after(time);
  for (std::uint64_t seed = 1; !deadline.expired(); ++seed) {
    SCOPED_TRACE(seed);
    fuzz(seed);
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

// The inputs in a file of a corpus: a line each, in hexadecimal if `hex`.
inline std::vector<std::string> read_corpus(
    const std::string& path, bool hex = false) {
  std::vector<std::string> inputs;
  const auto text = read_file(path);
  ARGOSY_CHECK(text, "no corpus at {}", path);
  for (const std::string& line : split(*text, '\n')) {
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    const auto bytes = hex ? of_hex(line) : std::optional(line);
    ARGOSY_CHECK(bytes, "{}: {} is not hexadecimal", path, line);
    inputs.push_back(*bytes);
  }
  return inputs;
}

} // namespace argosy::testing
