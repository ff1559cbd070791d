#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "argosy/data/slots/field_sample.h"
#include "argosy/fs/stream.h"

namespace argosy::data {

// A format whose fields have names. Source: made of the layout, the options,
// a file and the limit of a read. Not installed.
template <typename Source, typename Options>
class FieldFormat final : public SampleFormat {
 public:
  FieldFormat(const Slots& slots, const Options& options)
      : layout_(layout_of(slots, options.fields)), options_(options) {}

  const RecordLayout& layout() const override { return layout_; }

  std::unique_ptr<SampleSource> open(
      std::unique_ptr<fs::ByteStream> file,
      std::chrono::milliseconds limit) const override {
    return std::make_unique<Source>(layout_, options_, std::move(file), limit);
  }

 private:
  const RecordLayout layout_;
  const Options options_;
};

} // namespace argosy::data
