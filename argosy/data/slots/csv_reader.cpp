#include "argosy/data/slots/csv_reader.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::data {

namespace {

constexpr std::size_t kMostOfRecord = std::size_t{1} << 20;

bool has_open_quote(std::string_view text) {
  return std::ranges::count(text, '"') % 2 != 0;
}

} // namespace

bool CsvReader::next_line(std::string& line) {
  if (!put_back_.empty()) {
    line = std::move(put_back_.front());
    put_back_.pop_front();
  } else if (const auto read = lines_.next()) {
    line = *read;
  } else {
    return false;
  }
  ++line_;
  return true;
}

// Adds lines to the record until all quotes are closed; false if that does not
// happen.
bool CsvReader::join_lines() {
  joined_.clear();
  bool is_open = has_open_quote(record_);
  while (is_open) {
    std::string line;
    if (record_.size() > kMostOfRecord || !next_line(line)) {
      return false;
    }
    is_open = !has_open_quote(line);
    record_ += '\n';
    record_ += line;
    joined_.push_back(std::move(line));
  }
  return true;
}

void CsvReader::put_back() {
  line_ -= static_cast<std::int64_t>(joined_.size());
  put_back_.insert(
      put_back_.begin(),
      std::make_move_iterator(joined_.begin()),
      std::make_move_iterator(joined_.end()));
  joined_.clear();
}

SampleSource::Step CsvReader::next(SampleFault& fault) {
  do {
    if (!next_line(record_)) {
      return SampleSource::Step::End;
    }
  } while (record_.empty() || record_ == "\r");
  first_line_ = line_;
  LineFault wrong;
  if (!join_lines()) {
    wrong = {record_.find('"'), "a quote that is not closed"};
  } else {
    if (record_.ends_with('\r')) {
      record_.pop_back();
    }
    if (split(wrong)) {
      return SampleSource::Step::Sample;
    }
  }
  fault = {place_of(wrong.column), std::move(wrong.what)};
  put_back();
  return SampleSource::Step::Bad;
}

// Fills fields_. The fault's column is an offset.
bool CsvReader::split(LineFault& fault) {
  fields_.clear();
  unquoted_.clear();
  for (std::size_t begin = 0;;) {
    std::size_t end = begin;
    if (begin < record_.size() && record_[begin] == '"') {
      end = unquote(begin);
      if (end < record_.size() && record_[end] != delimiter_) {
        fault = {end, "text behind a quoted field, expected its end"};
        return false;
      }
    } else {
      end = std::min(record_.find(delimiter_, begin), record_.size());
      const std::string_view text(record_.data() + begin, end - begin);
      if (const auto quote = text.find('"'); quote != text.npos) {
        fault = {
            begin + quote,
            "a quote in a field that does not begin with one, expected the "
            "field in quotes, and this one twice"};
        return false;
      }
      fields_.push_back({text, begin});
    }
    if (end >= record_.size()) {
      return true;
    }
    begin = end + 1;
  }
}

// Adds the field whose quote opens at `begin`; returns where it ends. Quotes
// come in pairs here: join_lines() has counted them.
std::size_t CsvReader::unquote(std::size_t begin) {
  std::size_t from = begin + 1;
  std::string joined;
  bool is_joined = false;
  for (;;) {
    const std::size_t quote = std::min(record_.find('"', from), record_.size());
    const std::string_view part(record_.data() + from, quote - from);
    const bool is_doubled =
        quote + 1 < record_.size() && record_[quote + 1] == '"';
    if (!is_doubled && !is_joined) {
      fields_.push_back({part, begin});
      return std::min(quote + 1, record_.size());
    }
    joined += part;
    is_joined = true;
    if (!is_doubled) {
      fields_.push_back({unquoted_.emplace_back(std::move(joined)), begin});
      return std::min(quote + 1, record_.size());
    }
    joined += '"';
    from = quote + 2;
  }
}

std::string CsvReader::place_of(std::size_t offset) const {
  const std::string_view before(
      record_.data(), std::min(offset, record_.size()));
  const std::size_t last = before.rfind('\n');
  const std::size_t column =
      last == before.npos ? before.size() : before.size() - last - 1;
  return str(
      "line ",
      first_line_ + std::ranges::count(before, '\n'),
      ", column ",
      column + 1);
}

} // namespace argosy::data
