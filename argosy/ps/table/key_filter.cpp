#include "argosy/ps/table/key_filter.h"

#include <algorithm>

namespace argosy::ps {

namespace {

constexpr std::size_t kFirstLayer = 1u << 20; // keys
constexpr std::size_t kBitsPerKey = 10;
constexpr std::size_t kLanes =
    8; // words of a block; each key sets a bit in all
constexpr std::size_t kBlockBytes = kLanes * sizeof(std::uint32_t);
constexpr std::size_t kAhead = 16; // keys whose blocks are on the way

std::uint64_t hash_of(std::uint64_t key) {
  key = (key ^ (key >> 33)) * 0xff51afd7ed558ccdu;
  key = (key ^ (key >> 33)) * 0xc4ceb9fe1a85ec53u;
  return key ^ (key >> 33);
}

// The bit of the lane, by the lower half of the hash; the upper half chooses
// the block.
std::uint32_t bit_in(std::size_t lane, std::uint64_t hash) {
  constexpr std::uint32_t kFactors[kLanes] = {
      0x47b6137b,
      0x44974d91,
      0x8824ad5b,
      0xa2b7289d,
      0x705495c7,
      0x2df1424b,
      0x9efc4947,
      0x5c6bfb31};
  return 1u << (static_cast<std::uint32_t>(hash) * kFactors[lane] >> 27);
}

} // namespace

KeyFilter::Layer::Layer(std::size_t keys)
    : capacity_(keys),
      num_blocks_(keys * kBitsPerKey / 8 / kBlockBytes),
      pages_(num_blocks_ * kBlockBytes) {
  if (pages_.size() >= kHugePagesFrom) {
    pages_.want_huge_pages();
  }
}

std::uint32_t* KeyFilter::Layer::block(std::uint64_t hash) const {
  const std::size_t index = ((hash >> 32) * num_blocks_) >> 32;
  return reinterpret_cast<std::uint32_t*>(pages_.data()) + index * kLanes;
}

void KeyFilter::Layer::add(std::uint64_t hash) {
  std::uint32_t* const words = block(hash);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    words[lane] |= bit_in(lane, hash);
  }
  ++added_;
}

bool KeyFilter::Layer::may_contain(std::uint64_t hash) const {
  const std::uint32_t* const words = block(hash);
  std::uint32_t missing = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    missing |= bit_in(lane, hash) & ~words[lane];
  }
  return missing == 0;
}

void KeyFilter::add(std::uint64_t key) {
  if (may_contain(key)) {
    return;
  }
  if (layers_.empty() || layers_.back().full()) {
    layers_.emplace_back(kFirstLayer << layers_.size());
  }
  layers_.back().add(hash_of(key));
}

bool KeyFilter::may_contain(std::uint64_t key) const {
  const std::uint64_t hash = hash_of(key);
  // The last layers hold most keys.
  return std::any_of(layers_.rbegin(), layers_.rend(), [&](const Layer& layer) {
    return layer.may_contain(hash);
  });
}

void KeyFilter::keep_contained(std::vector<std::uint64_t>& keys) const {
  std::size_t kept = 0;
  const auto prefetch = [&](std::uint64_t key) {
    for (const Layer& layer : layers_) {
      layer.prefetch(hash_of(key));
    }
  };
  for (std::size_t i = 0; i < std::min(kAhead, keys.size()); ++i) {
    prefetch(keys[i]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + kAhead < keys.size()) {
      prefetch(keys[i + kAhead]);
    }
    if (may_contain(keys[i])) {
      keys[kept++] = keys[i];
    }
  }
  keys.resize(kept);
}

std::size_t KeyFilter::memory_bytes() const {
  std::size_t bytes = 0;
  for (const Layer& layer : layers_) {
    bytes += layer.bytes();
  }
  return bytes;
}

} // namespace argosy::ps
