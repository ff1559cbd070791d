#include "argosy/checkpoint/json_cursor.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/json.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kMostDims = 64;
constexpr std::size_t kMostLevels = 64;

} // namespace

JsonCursor::JsonCursor(std::string_view text, std::string path)
    : text_(text), path_(std::move(path)) {}

void JsonCursor::object(const std::function<void(const std::string&)>& f) {
  expect('{');
  if (accept('}')) {
    return;
  }
  steps_.emplace_back();
  do {
    steps_.back().key.clear();
    std::string key = string();
    steps_.back().key = key;
    expect(':');
    f(key);
  } while (accept(','));
  steps_.pop_back();
  expect('}');
}

std::uint32_t JsonCursor::fields(
    std::initializer_list<std::string_view> names,
    const std::function<void(std::size_t)>& f,
    bool skip_others) {
  std::uint32_t found = 0;
  object([&](const std::string& key) {
    const auto at = static_cast<std::size_t>(
        std::ranges::find(names, std::string_view(key)) - names.begin());
    if (at < names.size()) {
      if ((found >> at & 1) != 0) {
        fail("is there twice");
      }
      found |= std::uint32_t{1} << at;
      f(at);
    } else if (skip_others) {
      if (!nlohmann::json::accept(raw_value())) {
        fail("is not JSON");
      }
    } else {
      fail("unknown field");
    }
  });
  return found;
}

void JsonCursor::require(
    std::uint32_t found,
    std::initializer_list<std::string_view> names,
    std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    if ((found >> i & 1) == 0) {
      fail(str("the field \"", names.begin()[i], "\" is missing"));
    }
  }
}

void JsonCursor::array(const std::function<void()>& f) {
  expect('[');
  if (accept(']')) {
    return;
  }
  steps_.push_back({{}, 0});
  do {
    f();
    ++steps_.back().index;
  } while (accept(','));
  steps_.pop_back();
  expect(']');
}

std::string JsonCursor::string() {
  bool plain = true;
  const std::string_view literal = string_literal(plain);
  if (plain) {
    return std::string(literal.substr(1, literal.size() - 2));
  }
  const auto parsed = nlohmann::json::parse(literal, nullptr, false);
  if (!parsed.is_string()) {
    fail("expected a string of UTF-8");
  }
  return parsed.get<std::string>();
}

std::string_view JsonCursor::plain_string() {
  bool plain = true;
  const std::string_view literal = string_literal(plain);
  if (!plain) {
    fail("expected a string of plain ASCII");
  }
  return literal.substr(1, literal.size() - 2);
}

Hash128 JsonCursor::hash() {
  const std::string_view text = plain_string();
  try {
    return hash_of_hex(text);
  } catch (const CheckpointError&) {
    fail("expected a hash of 32 digits of 0-9 and a-f");
  }
}

std::int64_t JsonCursor::integer(std::int64_t least, std::int64_t most) {
  peek();
  const char* first = text_.data() + at_;
  const char* last = text_.data() + text_.size();
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(first, last, value);
  const bool has_sign = first < last && *first == '-';
  const char* digits = first + (has_sign ? 1 : 0);
  const bool leading_zero = stop - digits > 1 && *digits == '0';
  const bool fraction =
      stop < last && (*stop == '.' || *stop == 'e' || *stop == 'E');
  if (error != std::errc() || leading_zero || fraction || value < least ||
      value > most) {
    fail(str("expected an integer from ", least, " to ", most));
  }
  at_ += static_cast<std::size_t>(stop - first);
  return value;
}

Shape JsonCursor::shape() {
  Shape sizes;
  array([&] {
    if (sizes.size() == kMostDims) {
      fail(str("more than ", kMostDims, " dims"));
    }
    sizes.push_back(integer(0, INT64_MAX));
  });
  return sizes;
}

nlohmann::json JsonCursor::json_object() {
  if (peek() != '{') {
    fail("expected an object");
  }
  const std::string_view raw = raw_value();
  try {
    return parse_json(raw, "JSON");
  } catch (const InvalidArgument& error) {
    fail(error.what());
  } catch (const nlohmann::json::exception&) {
    fail("has a number out of range");
  }
}

void JsonCursor::end() {
  if (peek() != '\0' || at_ < text_.size()) {
    fail("expected the end of the text");
  }
}

void JsonCursor::fail(const std::string& what) const {
  const std::string where = place();
  throw CheckpointError(
      str("[checkpoint.read] ",
          path_,
          where.empty() ? "" : ": ",
          where,
          ": ",
          what,
          ", at byte ",
          at_,
          " of ",
          text_.size()));
}

char JsonCursor::peek() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' ||
          text_[at_] == '\r')) {
    ++at_;
  }
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonCursor::expect(char c) {
  if (!accept(c)) {
    fail(str("expected '", c, "'"));
  }
}

bool JsonCursor::accept(char c) {
  if (peek() != c || at_ == text_.size()) {
    return false;
  }
  ++at_;
  return true;
}

std::string_view JsonCursor::string_literal(bool& plain) {
  if (peek() != '"') {
    fail("expected a string");
  }
  plain = true;
  const std::size_t begin = at_;
  for (std::size_t i = begin + 1; i < text_.size(); ++i) {
    const auto c = static_cast<unsigned char>(text_[i]);
    if (c == '"') {
      at_ = i + 1;
      return text_.substr(begin, at_ - begin);
    }
    if (c < 0x20) {
      fail("a string with a control character");
    }
    plain = plain && c != '\\' && c < 0x80;
    i += c == '\\' ? 1 : 0;
  }
  fail("a string without an end");
}

// Finds where a value ends. Whether it is JSON is left to the parser.
std::string_view JsonCursor::raw_value() {
  peek();
  const std::size_t begin = at_;
  std::size_t levels = 0;
  while (true) {
    const char c = peek();
    if (c == '"') {
      bool plain = true;
      string_literal(plain);
    } else if (
        c == '\0' || (levels == 0 && (c == ',' || c == '}' || c == ']'))) {
      fail("expected a value");
    } else {
      levels += c == '{' || c == '[' ? 1 : 0;
      levels -= c == '}' || c == ']' ? 1 : 0;
      if (levels > kMostLevels) {
        fail(str("nested more than ", kMostLevels, " levels deep"));
      }
      ++at_;
    }
    const char next = peek();
    if (levels == 0 &&
        (next == ',' || next == '}' || next == ']' || next == '\0')) {
      return text_.substr(begin, at_ - begin);
    }
  }
}

std::string JsonCursor::place() const {
  std::string text;
  for (const Step& step : steps_) {
    if (step.index >= 0) {
      text += str('[', step.index, ']');
    } else if (!step.key.empty()) {
      text += str(text.empty() ? "" : ".", step.key.substr(0, 200));
    }
  }
  return text;
}

std::uint64_t checked_bytes(
    const Shape& shape, DType dtype, const JsonCursor& cursor) {
  auto bytes = static_cast<std::int64_t>(element_bytes(dtype));
  bool empty = false;
  for (const std::int64_t size : shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(
            bytes, std::max<std::int64_t>(size, 1), &bytes)) {
      cursor.fail(str("the shape ", shape_text(shape), " is too large"));
    }
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

} // namespace argosy::checkpoint
