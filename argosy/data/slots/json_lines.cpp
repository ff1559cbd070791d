#include "argosy/data/slots/json_lines.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/slots/field_format.h"
#include "argosy/data/slots/line_source.h"
#include "argosy/data/slots/number_text.h"

namespace argosy::data {

namespace {

using nlohmann::json;
using Target = FieldSample::Target;

// Takes the values of an object while it is parsed, so that no tree is built.
// What the parser calls; each returns false to stop it.
class Events {
 public:
  Events(FieldSample& sample, std::size_t num_slots)
      : sample_(sample), seen_(num_slots + 1) {}

  void begin() {
    depth_ = 0;
    target_ = {};
    field_.clear();
    std::ranges::fill(seen_, char{0});
    no_json_.reset();
  }

  bool null() {
    return is_ignored() || (depth_ == 1 || sample_.refuse(target_, "null"));
  }
  bool boolean(bool value) {
    return is_ignored() || sample_.refuse(target_, value ? "true" : "false");
  }
  bool number_integer(json::number_integer_t value) { // a negative one
    return is_ignored() ||
        (is_float() ? sample_.add_float(target_, static_cast<float>(value))
                    : sample_.refuse(target_, str(value)));
  }
  bool number_unsigned(json::number_unsigned_t value) {
    return is_ignored() || sample_.add_id(target_, value);
  }
  bool number_float(json::number_float_t, const std::string& text) {
    float value = 0;
    return is_ignored() ||
        (is_float() && is_number(text, value)
             ? sample_.add_float(target_, value)
             : sample_.refuse(target_, text));
  }
  bool string(const std::string& value) {
    return is_ignored() || sample_.add_word(target_, value);
  }
  bool binary(json::binary_t&) { return false; } // text has none

  bool start_object(std::size_t) {
    if (depth_ > 0 && !is_ignored()) {
      return sample_.refuse(target_, "an object");
    }
    ++depth_;
    return true;
  }
  bool key(const std::string& name) {
    if (depth_ > 1) {
      return true; // within a field that is ignored
    }
    field_ = name;
    target_ = sample_.target_of(name);
    if (is_ignored()) {
      return true;
    }
    const std::size_t place =
        target_.kind == Target::Kind::Slot ? target_.slot : seen_.size() - 1;
    return std::exchange(seen_[place], char{1}) != 0
        ? sample_.fail(str("field \"", name, "\" is there twice"))
        : true;
  }
  bool end_object() { return close(); }
  bool start_array(std::size_t) {
    if (target_.kind == Target::Kind::Id) {
      return sample_.refuse(target_, "a list");
    }
    ++depth_;
    return true;
  }
  bool end_array() { return close(); }

  bool parse_error(
      std::size_t position,
      const std::string& /*last_token*/,
      const json::exception& error) {
    const std::string_view text = error.what();
    const auto colon = text.find(": ");
    no_json_ = {
        std::max<std::size_t>(position, 1),
        str("no JSON: ", text.substr(colon == text.npos ? 0 : colon + 2))};
    return false;
  }

  // The field that the parser was in.
  const std::string& field() const { return field_; }
  const std::optional<LineFault>& no_json() const { return no_json_; }

 private:
  bool is_ignored() const { return target_.kind == Target::Kind::Ignored; }
  bool is_float() const {
    return target_.kind == Target::Kind::Slot &&
        sample_.slot(target_).type == SlotType::Float;
  }
  bool close() {
    --depth_;
    return true;
  }

  FieldSample& sample_;
  std::vector<char> seen_; // 1 for each slot, and for the id, that has come
  int depth_ = 0;          // of open objects and lists
  Target target_;
  std::string field_;
  std::optional<LineFault> no_json_;
};

// Parses one line after another.
class LineParser {
 public:
  LineParser(const RecordLayout& layout, const FieldOptions& options)
      : sample_(layout, options), events_(sample_, layout.slots().size()) {}

  std::optional<LineFault> parse(std::string_view line, Records& into) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] != '{') {
      return LineFault{
          first == line.npos ? 1 : first + 1, "no object, expected one a line"};
    }
    sample_.begin();
    events_.begin();
    if (!json::sax_parse(line.begin(), line.end(), &events_)) {
      return events_.no_json() ? *events_.no_json()
                               : at_field(line, events_.field());
    }
    return sample_.finish(into)
        ? std::nullopt
        : std::optional(at_field(line, sample_.wrong_field()));
  }

 private:
  // Parsers do not tell where they are.
  LineFault at_field(std::string_view line, const std::string& field) const {
    const auto at = line.find(str('"', field, '"'));
    return {at == line.npos ? 1 : at + 1, sample_.what()};
  }

  FieldSample sample_;
  Events events_;
};

class JsonSource final : public SampleSource {
 public:
  JsonSource(
      const RecordLayout& layout,
      const JsonLinesOptions& options,
      std::unique_ptr<fs::ByteStream> file,
      std::chrono::milliseconds limit)
      : parser_(layout, options.fields),
        lines_(
            std::move(file),
            limit,
            /*skips_empty=*/true,
            [this](std::string_view line, Records& into) {
              return parser_.parse(line, into);
            }) {}

  Step next(Records& into, SampleFault& fault) override {
    return lines_.next(into, fault);
  }

 private:
  using Parse =
      std::function<std::optional<LineFault>(std::string_view, Records&)>;

  LineParser parser_;
  LineSource<Parse> lines_;
};

} // namespace

std::shared_ptr<const SampleFormat> make_json_lines_format(
    const Slots& slots, const JsonLinesOptions& options) {
  return std::make_shared<FieldFormat<JsonSource, JsonLinesOptions>>(
      slots, options);
}

} // namespace argosy::data
