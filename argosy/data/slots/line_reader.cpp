#include "argosy/data/slots/line_reader.h"

#include "argosy/common/error.h"

namespace argosy::data {

std::optional<std::string_view> LineReader::next() {
  std::size_t scanned = 0; // up to here there is no end of a line
  for (;;) {
    const std::string_view left(stream_.left().data(), stream_.left().size());
    const std::size_t newline = left.find('\n', scanned);
    if (newline != std::string_view::npos) {
      stream_.take(newline + 1);
      ++line_;
      return left.substr(0, newline);
    }
    if (at_end_) {
      if (left.empty()) {
        return std::nullopt;
      }
      stream_.take(left.size());
      ++line_;
      return left;
    }
    scanned = left.size();
    ARGOSY_CHECK(
        scanned < stream_.longest(),
        "[data.lines] {}, line {} has more than {} bytes",
        name(),
        line_ + 1,
        stream_.longest());
    at_end_ = !stream_.more();
  }
}

} // namespace argosy::data
