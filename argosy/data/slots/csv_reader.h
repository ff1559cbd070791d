#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "argosy/data/slots/line_reader.h"
#include "argosy/data/slots/sample_format.h"

namespace argosy::data {

struct CsvField {
  std::string_view text;  // without quotes
  std::size_t offset = 0; // in its record
};

// The records of a CSV file, which may have several lines. Not installed.
class CsvReader {
 public:
  CsvReader(
      std::unique_ptr<fs::ByteStream> file,
      std::chrono::milliseconds limit,
      char delimiter)
      : lines_(std::move(file), limit), delimiter_(delimiter) {}

  // Reads the next record that is not empty; its fields are valid until the
  // next call. After a bad one, which the fault tells of, goes on with the line
  // behind the first of that record: a quote too much costs one line.
  SampleSource::Step next(SampleFault& fault);

  const std::vector<CsvField>& fields() const { return fields_; }

  // "line 3, column 7", of a place in the record.
  std::string place_of(std::size_t offset) const;
  std::string name() const { return lines_.name(); }

 private:
  bool next_line(std::string& line);
  bool join_lines();
  void put_back();
  bool split(LineFault& fault);
  std::size_t unquote(std::size_t begin);

  LineReader lines_;
  const char delimiter_;
  std::deque<std::string> put_back_; // lines that are read again
  std::int64_t line_ = 0;            // the last one that was read
  std::int64_t first_line_ = 0;      // of the record
  std::vector<std::string> joined_;  // the other lines of the record
  std::string record_;
  std::vector<CsvField> fields_;
  std::deque<std::string> unquoted_; // texts of fields with quotes in them
};

} // namespace argosy::data
