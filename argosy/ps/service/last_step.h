#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace argosy::ps {

class ByteReader;
class ByteWriter;

// What a table's rows gave before the last synchronous step changed them. A
// worker that was killed in the middle of its pushes computes that step again,
// while some regions may have applied it already.
class LastStep {
 public:
  // Rows of `width` floats. Replaces all.
  void keep(
      std::span<const std::uint64_t> keys,
      std::vector<float> values,
      std::size_t width);

  // Replaces rows that the step has changed.
  void restore(
      std::span<const std::uint64_t> keys, std::span<float> values) const;

  void clear();
  void save(ByteWriter& out) const;
  void load(ByteReader& in);

 private:
  std::size_t width_ = 0;
  std::vector<std::uint64_t> keys_;
  std::vector<float> values_;
};

} // namespace argosy::ps
