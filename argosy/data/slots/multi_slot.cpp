#include "argosy/data/slots/multi_slot.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/slots/number_text.h"

namespace argosy::data {

namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// The place in a line up to which it has been read.
struct Cursor {
  const char* at;
  const char* end;

  void skip_blanks() {
    while (at != end && is_blank(*at)) {
      ++at;
    }
  }
  bool at_gap() const { return at == end || is_blank(*at); }
  std::string_view word() const {
    const char* stop = at;
    while (stop != end && !is_blank(*stop)) {
      ++stop;
    }
    return {at, static_cast<std::size_t>(stop - at)};
  }
};

// Reads the next number; false, with the cursor before it, if there is none.
template <typename T>
bool read(Cursor& cursor, T& value) {
  cursor.skip_blanks();
  const char* const stop = read_number(cursor.at, cursor.end, value);
  if (stop == nullptr || (stop != cursor.end && !is_blank(*stop))) {
    return false;
  }
  cursor.at = stop;
  return true;
}

bool is_zero(std::uint64_t id) {
  return id == 0;
}

bool is_zero(float value) {
  return std::abs(value) < 1e-6F;
}

template <typename T>
std::byte* put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
  return to + sizeof(value);
}

const char* words_for(SlotType type) {
  return type == SlotType::Id ? "an integer from 0 to 2^64-1"
                              : "a finite number";
}

// Turns one line into a sample. Methods return false when the line is wrong;
// `fault` tells then.
class Line {
 public:
  Line(
      const RecordLayout& layout,
      const MultiSlotOptions& options,
      std::string_view line,
      std::byte* to)
      : layout_(layout),
        options_(options),
        begin_(line.data()),
        cursor_{line.data(), line.data() + line.size()},
        to_(to),
        counts_(to + layout.counts_offset()),
        next_(to + layout.values_offset()) {}

  bool parse() {
    if (!head()) {
      return false;
    }
    for (const Slot& slot : layout_.slots()) {
      if (!(slot.type == SlotType::Id ? values<std::uint64_t>(slot)
                                      : values<float>(slot))) {
        return false;
      }
    }
    cursor_.skip_blanks();
    if (cursor_.at != cursor_.end && !options_.ignore_rest) {
      return wrong(
          "\"", shown(), "\" after the last slot, expected the line's end");
    }
    texts();
    return true;
  }

  std::size_t bytes() const { return static_cast<std::size_t>(next_ - to_); }

  LineFault fault;

 private:
  template <typename... Parts>
  bool wrong(const Parts&... parts) {
    fault.column = static_cast<std::size_t>(cursor_.at - begin_) + 1;
    fault.what = str(parts...);
    return false;
  }

  // The next word, for a message.
  std::string shown() const {
    constexpr std::size_t kLongest = 40;
    const std::string_view word = cursor_.word();
    return word.size() <= kLongest ? std::string(word)
                                   : str(word.substr(0, kLongest), "...");
  }

  // "1 <text>"
  bool text(const char* what, std::string_view& into) {
    cursor_.skip_blanks();
    const char* const count_at = cursor_.at;
    std::uint64_t count = 0;
    if (!read(cursor_, count) || count != 1) {
      cursor_.at = count_at;
      return wrong("\"", shown(), "\", expected 1 before the ", what);
    }
    cursor_.skip_blanks();
    into = cursor_.word();
    if (into.empty()) {
      return wrong("the line ends, expected the ", what);
    }
    cursor_.at += into.size();
    return true;
  }

  bool log_key(LogKey& key) {
    std::string_view digits;
    const Cursor before = cursor_;
    if (!text("log key", digits)) {
      return false;
    }
    const auto number = [&](std::size_t at, std::size_t size, auto& value) {
      const char* const first = digits.data() + at;
      const auto [stop, error] =
          std::from_chars(first, first + size, value, 16);
      return error == std::errc() && stop == first + size;
    };
    if (digits.size() < 32 || !number(16, 16, key.search_id) ||
        !number(11, 3, key.cmatch) || !number(14, 2, key.rank)) {
      cursor_ = before;
      return wrong(
          "log key \"", digits, "\", expected 32 hexadecimal digits or more");
    }
    return true;
  }

  bool head() {
    if ((options_.has_id && !text("id", id_)) ||
        (options_.has_content && !text("content", content_))) {
      return false;
    }
    LogKey key;
    if (options_.has_log_key) {
      if (!log_key(key)) {
        return false;
      }
      put(counts_ - sizeof(key), key);
    }
    return true;
  }

  bool count_of(const Slot& slot, std::uint64_t& count) {
    if (!read(cursor_, count)) {
      return cursor_.at == cursor_.end
          ? wrong("the line ends before slot \"", slot.name, "\"")
          : wrong(
                "slot \"",
                slot.name,
                "\": \"",
                shown(),
                "\", expected its number of values");
    }
    if (slot.is_dense() &&
        count != static_cast<std::uint64_t>(slot.num_values())) {
      return wrong(
          "slot \"",
          slot.name,
          "\": ",
          count,
          " values, expected ",
          slot.num_values());
    }
    if (count == 0 && !options_.allow_empty) {
      return wrong(
          "slot \"",
          slot.name,
          "\": 0 values, expected at least 1 (allow_empty lets them pass)");
    }
    return true;
  }

  template <typename T>
  bool values(const Slot& slot) {
    std::uint64_t count = 0;
    if (!count_of(slot, count)) {
      return false;
    }
    const bool drops = options_.drop_zeros && !slot.is_dense();
    std::uint32_t kept = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      T value;
      if (!read(cursor_, value)) {
        return wrong_value(slot, i, count);
      }
      if (!drops || !is_zero(value)) {
        next_ = put(next_, value);
        ++kept;
      }
    }
    if (drops && kept == 0) {
      next_ = put(next_, T{0});
      ++kept;
    }
    if (!slot.is_dense()) {
      counts_ = put(counts_, kept);
    }
    return true;
  }

  bool wrong_value(const Slot& slot, std::uint64_t i, std::uint64_t count) {
    return cursor_.at == cursor_.end
        ? wrong(
              "slot \"", slot.name, "\": ", count, " values, the line has ", i)
        : wrong(
              "slot \"",
              slot.name,
              "\": value ",
              i + 1,
              " of ",
              count,
              " is \"",
              shown(),
              "\", expected ",
              words_for(slot.type));
  }

  void texts() {
    if (layout_.has_texts()) {
      std::byte* const sizes = to_ + sizeof(std::uint32_t);
      put(put(sizes, static_cast<std::uint32_t>(id_.size())),
          static_cast<std::uint32_t>(content_.size()));
      for (const std::string_view text : {id_, content_}) {
        std::memcpy(next_, text.data(), text.size());
        next_ += text.size();
      }
    }
    put(to_, static_cast<std::uint32_t>(bytes()));
  }

  const RecordLayout& layout_;
  const MultiSlotOptions& options_;
  const char* const begin_;
  Cursor cursor_;
  std::byte* const to_;
  std::byte* counts_; // where the next number of values goes
  std::byte* next_;   // where the next value goes
  std::string_view id_;
  std::string_view content_;
};

} // namespace

MultiSlotParser::MultiSlotParser(Slots slots, MultiSlotOptions options)
    : layout_(
          std::move(slots),
          options.has_id || options.has_content,
          options.has_log_key),
      options_(options) {}

std::optional<LineFault> MultiSlotParser::parse(
    std::string_view line, Records& into) const {
  constexpr std::size_t kLongest = std::size_t{1} << 28;
  if (line.size() > kLongest) {
    return LineFault{1, str("a line of ", line.size(), " bytes")};
  }
  // A value takes two characters at least; dropped zeros may add one to each
  // slot.
  const std::size_t most = layout_.values_offset() + 5 * line.size() +
      sizeof(std::uint64_t) * (layout_.slots().size() + 1);
  Line parsed(layout_, options_, line, into.room(most));
  if (!parsed.parse()) {
    return std::move(parsed.fault);
  }
  into.commit(parsed.bytes());
  return std::nullopt;
}

} // namespace argosy::data
