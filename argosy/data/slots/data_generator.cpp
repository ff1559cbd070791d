#include "argosy/data/slots/data_generator.h"

#include <array>
#include <charconv>
#include <cmath>
#include <iostream>
#include <istream>
#include <ostream>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/slots/line_reader.h"

namespace argosy::data {

namespace {

void append_value(std::string& line, const std::string& value) {
  line += value;
}

// The shortest text that is read back as the same number.
template <typename T>
void append_value(std::string& line, T value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  line.append(text.data(), end);
}

std::size_t num_values(const GeneratedSlot& slot) {
  return std::visit(
      [](const auto& values) { return values.size(); }, slot.values);
}

std::string text_of_sample(const GeneratedSample& sample) {
  std::string line;
  for (const GeneratedSlot& slot : sample) {
    line += line.empty() ? "" : " ";
    line += std::to_string(num_values(slot));
    std::visit(
        [&](const auto& values) {
          for (const auto& value : values) {
            line += ' ';
            append_value(line, value);
          }
        },
        slot.values);
  }
  line += '\n';
  return line;
}

void check_values(const GeneratedSlot& slot) {
  ARGOSY_CHECK(
      num_values(slot) > 0,
      "slot \"{}\" has no values, expected at least one (0 for none)",
      slot.name);
  if (const auto* ids = std::get_if<std::vector<std::int64_t>>(&slot.values)) {
    for (const std::int64_t id : *ids) {
      ARGOSY_CHECK(
          id >= 0, "slot \"{}\": id {}, expected no sign", slot.name, id);
    }
  }
  if (const auto* floats = std::get_if<std::vector<double>>(&slot.values)) {
    for (const double value : *floats) {
      ARGOSY_CHECK(
          std::isfinite(value),
          "slot \"{}\": {}, expected a finite number",
          slot.name,
          value);
    }
  }
}

const char* kind_name(std::size_t kind) {
  constexpr std::array kNames = {"ids", "floats", "words"};
  return kNames[kind];
}

} // namespace

void DataGenerator::set_batch(std::int64_t batch_size) {
  ARGOSY_CHECK(
      batch_size > 0,
      "[data.generator] batches of {} samples, expected at least 1",
      batch_size);
  batch_size_ = batch_size;
}

void DataGenerator::run_from_stdin() {
  run(std::cin, std::cout);
}

void DataGenerator::run(std::istream& raw, std::ostream& out) {
  line_ = 0;
  for (std::string line; std::getline(raw, line);) {
    add(line, out);
  }
  write_batch(out);
  out.flush();
  if (!out) {
    throw SystemError("[data.generator] cannot write the samples");
  }
}

void DataGenerator::run_from_files(
    const std::vector<std::string>& files, std::ostream& out) {
  constexpr std::chrono::minutes kLimit(1);
  for (const std::string& file : files) {
    line_ = 0;
    LineReader lines(fs::open_stream(file, Deadline::after(kLimit)), kLimit);
    while (const auto line = lines.next()) {
      add(std::string(*line), out);
    }
  }
  write_batch(out);
  out.flush();
  if (!out) {
    throw SystemError("[data.generator] cannot write the samples");
  }
}

void DataGenerator::add(const std::string& line, std::ostream& out) {
  ++line_;
  for (GeneratedSample& sample : generate_sample(line)) {
    batch_.push_back(std::move(sample));
    if (batch_.size() >= static_cast<std::size_t>(batch_size_)) {
      write_batch(out);
    }
  }
}

void DataGenerator::write_batch(std::ostream& out) {
  for (const GeneratedSample& sample :
       generate_batch(std::exchange(batch_, {}))) {
    try {
      out << line_of(sample);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(
          str("[data.generator] up to line ", line_, ": ", error.what()));
    }
  }
}

std::string MultiSlotDataGenerator::line_of(const GeneratedSample& sample) {
  ARGOSY_CHECK(!sample.empty(), "a sample without slots");
  if (slots_.empty()) {
    for (const GeneratedSlot& slot : sample) {
      slots_.emplace_back(slot.name, slot.values.index());
    }
  }
  ARGOSY_CHECK(
      sample.size() == slots_.size(),
      "a sample has {} slots, the first one {}",
      sample.size(),
      slots_.size());
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const auto& [name, kind] = slots_[i];
    ARGOSY_CHECK(
        sample[i].name == name,
        "slot {} is \"{}\", in the first sample \"{}\"",
        i,
        sample[i].name,
        name);
    ARGOSY_CHECK(
        sample[i].values.index() == kind,
        "slot \"{}\" has {}, in the first sample {}",
        name,
        kind_name(sample[i].values.index()),
        kind_name(kind));
    check_values(sample[i]);
  }
  return text_of_sample(sample);
}

std::string MultiSlotStringDataGenerator::line_of(
    const GeneratedSample& sample) {
  return text_of_sample(sample);
}

} // namespace argosy::data
