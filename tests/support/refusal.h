#pragma once

#include <string>

#include "argosy/common/error.h"

namespace argosy::testing {

// The message of the InvalidArgument that `action` throws, or "".
template <typename F>
std::string refusal(const F& action) {
  try {
    action();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

} // namespace argosy::testing
