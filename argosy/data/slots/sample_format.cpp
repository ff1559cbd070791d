#include "argosy/data/slots/sample_format.h"

#include <utility>

#include "argosy/data/slots/csv.h"
#include "argosy/data/slots/json_lines.h"
#include "argosy/data/slots/line_source.h"
#include "argosy/data/slots/tf_record.h"

namespace argosy::data {

namespace {

class MultiSlotFormat final : public SampleFormat {
 public:
  MultiSlotFormat(const Slots& slots, const MultiSlotOptions& options)
      : parser_(slots, options) {}

  const RecordLayout& layout() const override { return parser_.layout(); }

  std::unique_ptr<SampleSource> open(
      std::unique_ptr<fs::ByteStream> file,
      std::chrono::milliseconds limit) const override {
    constexpr bool kSkipsEmpty = false;
    const auto parse = [this](std::string_view line, Records& into) {
      return parser_.parse(line, into);
    };
    return std::make_unique<LineSource<decltype(parse)>>(
        std::move(file), limit, kSkipsEmpty, parse);
  }

 private:
  const MultiSlotParser parser_;
};

struct FormatMaker {
  const Slots& slots;

  std::shared_ptr<const SampleFormat> operator()(
      const MultiSlotOptions& options) const {
    return std::make_shared<MultiSlotFormat>(slots, options);
  }
  std::shared_ptr<const SampleFormat> operator()(
      const CsvOptions& options) const {
    return make_csv_format(slots, options);
  }
  std::shared_ptr<const SampleFormat> operator()(
      const JsonLinesOptions& options) const {
    return make_json_lines_format(slots, options);
  }
  std::shared_ptr<const SampleFormat> operator()(
      const TfRecordOptions& options) const {
    return make_tf_record_format(slots, options);
  }
};

} // namespace

std::shared_ptr<const SampleFormat> make_format(
    const Slots& slots, const FormatOptions& options) {
  return std::visit(FormatMaker{slots}, options);
}

} // namespace argosy::data
