#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

// What bench/ps_table measures: our tables and their peers behind one
// interface. A key's row is `dim` weights and one sum of squares.
namespace argosy::bench {

class Store {
 public:
  virtual ~Store() = default;

  // `values` has dim floats for each key.
  virtual void pull(
      std::span<const std::uint64_t> keys, std::span<float> values) = 0;

  // Applies AdaGrad; makes rows that are missing.
  virtual void push(
      std::span<const std::uint64_t> keys,
      std::span<const float> gradients) = 0;
};

// The peer for a name, for 8, 16 or 64 weights: "std::unordered_map", "abseil",
// "RocksDB", "Redis". `folder` is for files and sockets.
std::unique_ptr<Store> make_peer(
    const std::string& name, int dim, const std::string& folder);

} // namespace argosy::bench
