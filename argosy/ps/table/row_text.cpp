#include "argosy/ps/table/row_text.h"

#include <charconv>
#include <cstring>
#include <vector>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

constexpr std::size_t kLongestNumber = 32;

template <typename T>
void append_shortest(T value, std::string& out) {
  char text[kLongestNumber];
  out.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

template <typename T>
T take_shortest(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  T value{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(end - text.data());
  ARGOSY_CHECK(
      error == std::errc() && (length == text.size() || text[length] == ' '),
      "[ps.load] '{}', expected a number",
      text.substr(0, kLongestNumber));
  text.remove_prefix(length);
  return value;
}

bool is_double(const RowLayout& layout, int at) {
  return layout.doubles && (at == layout.show || at == layout.click);
}

} // namespace

void append_number(float value, std::string& out) {
  append_shortest(value, out);
}

float take_number(std::string_view& text) {
  return take_shortest<float>(text);
}

void append_row_text(
    const RowLayout& layout,
    std::uint64_t key,
    std::span<const float> words,
    std::string& out) {
  append_shortest(key, out);
  const int size = static_cast<int>(words.size());
  for (int at = 0; at < size; ++at) {
    out += ' ';
    if (size > layout.pending_words && is_double(layout, at)) {
      double value;
      std::memcpy(&value, &words[static_cast<std::size_t>(at)], sizeof(value));
      append_shortest(value, out);
      ++at;
    } else {
      append_shortest(words[static_cast<std::size_t>(at)], out);
    }
  }
  out += '\n';
}

void parse_row_text(
    const RowLayout& layout, std::string_view line, RowBatch& out) {
  const auto key = take_shortest<std::uint64_t>(line);
  const std::size_t before = out.words.size();
  while (line.find_first_not_of(" \r") != std::string_view::npos) {
    const int at = static_cast<int>(out.words.size() - before);
    ARGOSY_CHECK(
        at < layout.full_words || at < layout.pending_words,
        "[ps.load] the row of key {} has more than {} values",
        key,
        layout.full_words);
    if (is_double(layout, at)) {
      const auto value = take_shortest<double>(line);
      out.words.resize(out.words.size() + 2);
      std::memcpy(out.words.data() + out.words.size() - 2, &value, 8);
    } else {
      out.words.push_back(take_shortest<float>(line));
    }
  }
  const int size = static_cast<int>(out.words.size() - before);
  const bool known = size == layout.full_words ||
      size == layout.pending_words || (size == layout.base_words && size > 0);
  if (!known) {
    out.words.resize(before);
    throw InvalidArgument(
        str("[ps.load] the row of key ",
            key,
            " has ",
            size,
            " words, expected ",
            layout.base_words,
            " or ",
            layout.full_words));
  }
  out.keys.push_back(key);
  out.ends.push_back(out.words.size());
}

} // namespace argosy::ps
