#pragma once

#include <string>

#include "argosy/common/error.h"

namespace argosy::testing {

// The message of the error that `action` throws, or "".
template <typename ErrorType = InvalidArgument, typename F>
std::string refusal(const F& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "";
}

} // namespace argosy::testing
