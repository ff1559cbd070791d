#include "argosy/ps/service/last_step.h"

#include <algorithm>
#include <unordered_map>

#include "argosy/ps/service/bytes.h"

namespace argosy::ps {

void LastStep::keep(
    std::span<const std::uint64_t> keys,
    std::vector<float> values,
    std::size_t width) {
  width_ = width;
  keys_.assign(keys.begin(), keys.end());
  values_ = std::move(values);
}

void LastStep::clear() {
  keys_.clear();
  values_.clear();
}

void LastStep::restore(
    std::span<const std::uint64_t> keys, std::span<float> values) const {
  // Built here, as only a worker that came back asks.
  std::unordered_map<std::uint64_t, std::size_t> rows;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    rows[keys_[i]] = i;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (const auto found = rows.find(keys[i]); found != rows.end()) {
      std::copy_n(
          values_.begin() + static_cast<std::ptrdiff_t>(found->second * width_),
          width_,
          values.begin() + static_cast<std::ptrdiff_t>(i * width_));
    }
  }
}

void LastStep::save(ByteWriter& out) const {
  out.put(static_cast<std::uint64_t>(width_))
      .put(static_cast<std::uint32_t>(keys_.size()));
  for (const std::uint64_t key : keys_) {
    out.put(key);
  }
  for (const float value : values_) {
    out.put(value);
  }
}

void LastStep::load(ByteReader& in) {
  clear();
  width_ = in.get<std::uint64_t>();
  const std::size_t count = in.count(sizeof(std::uint64_t));
  for (std::size_t i = 0; i < count; ++i) {
    keys_.push_back(in.get<std::uint64_t>());
  }
  for (std::size_t i = 0; i < count * width_; ++i) {
    values_.push_back(in.get<float>());
  }
}

} // namespace argosy::ps
