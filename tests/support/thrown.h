#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>

namespace argosy::testing {

// The message of the E that `act` throws; anything else fails the test.
template <typename E>
std::string thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "of another class: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

} // namespace argosy::testing
