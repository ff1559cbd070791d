#include "argosy/data/slots/field_sample.h"

#include <cmath>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/slots/number_text.h"
#include "argosy/data/slots/word_hash.h"

namespace argosy::data {

namespace {

const char* expected_of(SlotType type, bool hash_words) {
  if (type == SlotType::Float) {
    return "a finite number";
  }
  return hash_words ? "a word"
                    : "an integer from 0 to 2^64-1 (hash_words lets words "
                      "pass)";
}

} // namespace

RecordLayout layout_of(const Slots& slots, const FieldOptions& options) {
  RecordLayout layout(slots, !options.id.empty());
  for (const Slot& slot : slots) {
    ARGOSY_CHECK(
        slot.name != options.id,
        "[data.slots] field \"{}\" is a slot and the sample's id, expected one "
        "of them",
        slot.name);
  }
  return layout;
}

FieldSample::FieldSample(
    const RecordLayout& layout, const FieldOptions& options)
    : layout_(layout),
      options_(options),
      values_(layout.slots().size()),
      views_(layout.slots().size()) {
  for (std::size_t i = 0; i < layout.slots().size(); ++i) {
    targets_[layout.slots()[i].name] = {Target::Kind::Slot, i};
  }
  if (!options_.id.empty()) {
    targets_[options_.id] = {Target::Kind::Id, 0};
  }
}

FieldSample::Target FieldSample::target_of(std::string_view name) const {
  const auto found = targets_.find(name);
  return found == targets_.end() ? Target() : found->second;
}

void FieldSample::begin() {
  for (Values& values : values_) {
    values.ids.clear();
    values.floats.clear();
  }
  has_id_ = false;
}

void FieldSample::clear(const Target& target) {
  if (target.kind == Target::Kind::Slot) {
    values_[target.slot].ids.clear();
    values_[target.slot].floats.clear();
  } else if (target.kind == Target::Kind::Id) {
    has_id_ = false;
  }
}

bool FieldSample::fail(std::string what) {
  what_ = std::move(what);
  return false;
}

bool FieldSample::refuse(const Target& target, std::string_view value) {
  constexpr std::size_t kLongest = 40;
  const std::string shown = value.size() <= kLongest
      ? std::string(value)
      : str(value.substr(0, kLongest), "...");
  return target.kind == Target::Kind::Id
      ? fail(str("id \"", options_.id, "\": ", shown, ", expected one word"))
      : fail(
            str("slot \"",
                slot(target).name,
                "\": ",
                shown,
                ", expected ",
                expected_of(slot(target).type, options_.hash_words)));
}

bool FieldSample::set_id(std::string_view id) {
  if (has_id_ || id.empty()) {
    return refuse({Target::Kind::Id, 0}, id.empty() ? "nothing" : id);
  }
  id_ = id;
  has_id_ = true;
  return true;
}

bool FieldSample::add_id(const Target& target, std::uint64_t id) {
  if (target.kind == Target::Kind::Id) {
    return set_id(std::to_string(id));
  }
  if (slot(target).type == SlotType::Float) {
    values_[target.slot].floats.push_back(static_cast<float>(id));
  } else {
    values_[target.slot].ids.push_back(id);
  }
  return true;
}

bool FieldSample::add_float(const Target& target, float value) {
  if (target.kind == Target::Kind::Id || slot(target).type == SlotType::Id ||
      !std::isfinite(value)) {
    return refuse(target, str(value));
  }
  values_[target.slot].floats.push_back(value);
  return true;
}

bool FieldSample::add_word(const Target& target, std::string_view word) {
  if (target.kind == Target::Kind::Id) {
    return set_id(word);
  }
  if (slot(target).type == SlotType::Float || !options_.hash_words) {
    return refuse(target, str("\"", word, "\""));
  }
  values_[target.slot].ids.push_back(hash_of_word(word));
  return true;
}

bool FieldSample::add_text(const Target& target, std::string_view text) {
  if (target.kind == Target::Kind::Slot) {
    if (slot(target).type == SlotType::Float) {
      float value = 0;
      return is_number(text, value) ? add_float(target, value)
                                    : refuse(target, str("\"", text, "\""));
    }
    std::uint64_t id = 0;
    if (!options_.hash_words && is_number(text, id)) {
      return add_id(target, id);
    }
  }
  return add_word(target, text);
}

bool FieldSample::check_count(const Slot& slot, std::size_t count) {
  wrong_field_ = slot.name;
  if (slot.is_dense() && count != static_cast<std::size_t>(slot.num_values())) {
    return fail(
        str("slot \"",
            slot.name,
            "\": ",
            count,
            " values, expected ",
            slot.num_values()));
  }
  if (count == 0 && !options_.allow_empty) {
    return fail(
        str("slot \"",
            slot.name,
            "\": no values, expected at least 1 (allow_empty lets them pass)"));
  }
  return true;
}

bool FieldSample::finish(Records& into) {
  const Slots& slots = layout_.slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& [ids, floats] = values_[i];
    const bool is_id = slots[i].type == SlotType::Id;
    views_[i] = is_id
        ? SlotValues{std::as_bytes(std::span(ids)).data(), ids.size()}
        : SlotValues{std::as_bytes(std::span(floats)).data(), floats.size()};
    if (!check_count(slots[i], views_[i].size)) {
      return false;
    }
  }
  if (layout_.has_texts() && !has_id_) {
    wrong_field_ = options_.id;
    return fail(str("no id \"", options_.id, "\", expected one word"));
  }
  build_record(
      layout_, {.id = has_id_ ? std::string_view(id_) : ""}, views_, into);
  return true;
}

} // namespace argosy::data
