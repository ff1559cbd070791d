#pragma once

#include <optional>
#include <string>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/slots/line_reader.h"
#include "argosy/data/slots/sample_format.h"

namespace argosy::data {

// Samples that are a line each. Parse: (std::string_view line, Records& into)
// -> std::optional<LineFault>. Not installed.
template <typename Parse>
class LineSource final : public SampleSource {
 public:
  LineSource(
      std::unique_ptr<fs::ByteStream> file,
      std::chrono::milliseconds limit,
      bool skips_empty,
      Parse parse)
      : lines_(std::move(file), limit),
        skips_empty_(skips_empty),
        parse_(std::move(parse)) {}

  Step next(Records& into, SampleFault& fault) override {
    for (;;) {
      const auto line = lines_.next();
      if (!line) {
        return Step::End;
      }
      if (skips_empty_ && (line->empty() || *line == "\r")) {
        continue;
      }
      auto wrong = parse_(*line, into);
      if (!wrong) {
        return Step::Sample;
      }
      fault = {
          str("line ", lines_.line(), ", column ", wrong->column),
          std::move(wrong->what)};
      return Step::Bad;
    }
  }

 private:
  LineReader lines_;
  const bool skips_empty_;
  Parse parse_;
};

} // namespace argosy::data
