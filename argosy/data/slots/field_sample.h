#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "argosy/data/slots/record_builder.h"
#include "argosy/data/slots/sample_format.h"

namespace argosy::data {

// Collects the fields of a sample, which come by name in any order. Functions
// that return bool return false for what a sample must not have; what() says
// why then. Not installed.
class FieldSample {
 public:
  // What a field is for.
  struct Target {
    enum class Kind { Ignored, Id, Slot };
    Kind kind = Kind::Ignored;
    std::size_t slot = 0;
  };

  FieldSample(const RecordLayout& layout, const FieldOptions& options);
  FieldSample(const FieldSample&) = delete;
  FieldSample& operator=(const FieldSample&) = delete;

  Target target_of(std::string_view name) const;
  const Slot& slot(const Target& target) const {
    return layout_.slots()[target.slot];
  }

  // Forgets the sample before.
  void begin();
  // Forgets the values of one field.
  void clear(const Target& target);

  // Values of a field, one after another. An id field has one word or id.
  bool add_id(const Target& target, std::uint64_t id);
  bool add_float(const Target& target, float value);
  // Text that stands for itself: a number is no word.
  bool add_word(const Target& target, std::string_view word);
  // Text that may be a number.
  bool add_text(const Target& target, std::string_view text);

  // Adds the sample to `into`.
  bool finish(Records& into);

  bool refuse(const Target& target, std::string_view value);
  bool fail(std::string what);
  const std::string& what() const { return what_; }
  // The field that finish() found wrong.
  const std::string& wrong_field() const { return wrong_field_; }

 private:
  struct Values {
    std::vector<std::uint64_t> ids;
    std::vector<float> floats;
  };

  bool set_id(std::string_view id);
  bool check_count(const Slot& slot, std::size_t count);

  const RecordLayout& layout_;
  const FieldOptions options_;
  std::unordered_map<std::string_view, Target> targets_;
  std::vector<Values> values_; // of each slot
  std::vector<SlotValues> views_;
  std::string id_;
  bool has_id_ = false;
  std::string what_;
  std::string wrong_field_;
};

// The layout of samples of such fields.
RecordLayout layout_of(const Slots& slots, const FieldOptions& options);

} // namespace argosy::data
