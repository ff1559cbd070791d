#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <string>

#include "argosy/common/deadline.h"

namespace argosy::testing {

// Far enough that only a hang reaches it.
inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

// The message of the Expected that `call` throws; fails when it throws
// something else or nothing.
template <typename Expected, typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no exception";
  return "";
}

// Checks at its end that what ran since its start took at least `limit`, and
// not much longer, as far as that can be said on a machine with much else to
// do.
class ExpectTakes {
 public:
  explicit ExpectTakes(std::chrono::milliseconds limit) : limit_(limit) {}
  ~ExpectTakes() {
    const auto taken = std::chrono::steady_clock::now() - start_;
    EXPECT_GE(taken, limit_ - std::chrono::milliseconds(5));
    EXPECT_LE(taken, 2 * limit_ + std::chrono::seconds(3));
  }

 private:
  const std::chrono::milliseconds limit_;
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

} // namespace argosy::testing
