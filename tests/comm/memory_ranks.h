#pragma once

// What the tests of shared memory share: a backend among the ranks of a world,
// values whose sums are exact, and the texts of errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/backend/store_gather_strings.h"
#include "argosy/comm/memory/memory_backend.h"
#include "argosy/common/error.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"

namespace argosy::comm::memory {

using namespace std::chrono_literals;

inline Deadline soon() {
  return Deadline::after(30s);
}

// Among all ranks of a world, set up through its store.
inline std::unique_ptr<Backend> make_backend(
    World& world,
    const std::string& name = "test",
    Fetching fetching = Fetching::Always) {
  return std::make_unique<MemoryBackend>(
      name,
      world.rank(),
      world.size(),
      gather_strings_through(world.store(), name, world.rank(), world.size()),
      MemoryOptions{.fetching = fetching});
}

// Small integers that differ by rank and place: their sums are exact in all
// types, and a value from the wrong place or rank shows.
inline float value_at(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 31);
}

inline std::vector<float> values_of(
    int rank, std::size_t count, std::size_t from = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = value_at(rank, from + i);
  }
  return values;
}

inline std::vector<float> sum_of_all(
    int size, std::size_t count, std::size_t from = 0) {
  std::vector<float> sum(count, 0);
  for (int rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += value_at(rank, from + i);
    }
  }
  return sum;
}

inline Blocks packed(const std::vector<float>& data, int num_ranks) {
  return packed_blocks(
      data.data(),
      num_ranks,
      data.size() / static_cast<std::size_t>(num_ranks),
      sizeof(float));
}

constexpr Reduction kSum{DType::Float32, ReduceOp::SUM};

template <typename E>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "something else was thrown: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

} // namespace argosy::comm::memory
