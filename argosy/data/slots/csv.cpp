#include "argosy/data/slots/csv.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/data/slots/csv_reader.h"
#include "argosy/data/slots/field_format.h"

namespace argosy::data {

namespace {

using Target = FieldSample::Target;
using Step = SampleSource::Step;

class CsvSource final : public SampleSource {
 public:
  CsvSource(
      const RecordLayout& layout,
      const CsvOptions& options,
      std::unique_ptr<fs::ByteStream> file,
      std::chrono::milliseconds limit)
      : layout_(layout),
        options_(options),
        reader_(std::move(file), limit, options.delimiter),
        sample_(layout, options.fields) {
    set_columns(options.columns);
  }

  Step next(Records& into, SampleFault& fault) override {
    if (columns_.empty() && !read_header()) {
      return Step::End;
    }
    const Step step = reader_.next(fault);
    if (step == Step::Sample && !add(into, fault)) {
      return Step::Bad;
    }
    return step;
  }

 private:
  // False if the file is empty.
  bool read_header() {
    SampleFault fault;
    const Step step = reader_.next(fault);
    ARGOSY_CHECK(
        step != Step::Bad,
        "[data.csv] {}, {}: {}, in the names of the columns",
        reader_.name(),
        fault.place,
        fault.what);
    std::vector<std::string> names;
    for (const CsvField& field : reader_.fields()) {
      names.emplace_back(field.text);
    }
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (step == Step::Sample && names[0].starts_with(kByteOrderMark)) {
      names[0].erase(0, kByteOrderMark.size());
    }
    if (step == Step::Sample) {
      set_columns(names);
    }
    return step == Step::Sample;
  }

  void set_columns(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      ARGOSY_CHECK(
          std::ranges::count(names, name) == 1 ||
              sample_.target_of(name).kind == Target::Kind::Ignored,
          "[data.csv] {}: two columns are called \"{}\"",
          reader_.name(),
          name);
      columns_.push_back(sample_.target_of(name));
    }
    if (!names.empty()) {
      for (const Slot& slot : layout_.slots()) {
        check_column(names, slot.name);
      }
      if (layout_.has_texts()) {
        check_column(names, options_.fields.id);
      }
    }
  }

  void check_column(
      const std::vector<std::string>& names, const std::string& name) const {
    const auto near = nearest(name, names);
    ARGOSY_CHECK(
        std::ranges::find(names, name) != names.end(),
        "[data.csv] {}: no column \"{}\"{}, expected one of {}",
        reader_.name(),
        name,
        near ? str(" (did you mean \"", *near, "\"?)") : "",
        join(names, ", "));
  }

  bool add(Records& into, SampleFault& fault) {
    const std::vector<CsvField>& fields = reader_.fields();
    if (fields.size() != columns_.size()) {
      fault = {
          reader_.place_of(fields.back().offset),
          str(fields.size(), " fields, expected ", columns_.size())};
      return false;
    }
    sample_.begin();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (columns_[i].kind != Target::Kind::Ignored &&
          !add_field(columns_[i], fields[i])) {
        fault = {reader_.place_of(wrong_at_), sample_.what()};
        return false;
      }
    }
    if (!sample_.finish(into)) {
      fault = {reader_.place_of(offset_of_wrong()), sample_.what()};
      return false;
    }
    return true;
  }

  bool add_field(const Target& target, const CsvField& field) {
    wrong_at_ = field.offset;
    if (target.kind == Target::Kind::Id) {
      return sample_.add_text(target, field.text);
    }
    for (std::size_t begin = 0; begin < field.text.size();) {
      const std::size_t end = std::min(
          field.text.find(options_.value_separator, begin), field.text.size());
      wrong_at_ = field.offset + begin;
      if (!sample_.add_text(target, field.text.substr(begin, end - begin))) {
        return false;
      }
      begin = end + 1;
    }
    return true;
  }

  std::size_t offset_of_wrong() const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Target target = sample_.target_of(sample_.wrong_field());
      if (columns_[i].kind == target.kind && columns_[i].slot == target.slot) {
        return reader_.fields()[i].offset;
      }
    }
    return 0;
  }

  const RecordLayout& layout_;
  const CsvOptions& options_;
  CsvReader reader_;
  FieldSample sample_;
  std::vector<Target> columns_; // empty until they are known
  std::size_t wrong_at_ = 0;
};

} // namespace

std::shared_ptr<const SampleFormat> make_csv_format(
    const Slots& slots, const CsvOptions& options) {
  ARGOSY_CHECK(
      options.delimiter != '"' && options.delimiter != '\n' &&
          options.delimiter != options.value_separator,
      "[data.csv] delimiter '{}' and value_separator '{}', expected two "
      "characters that are no quotes",
      options.delimiter,
      options.value_separator);
  return std::make_shared<FieldFormat<CsvSource, CsvOptions>>(slots, options);
}

} // namespace argosy::data
