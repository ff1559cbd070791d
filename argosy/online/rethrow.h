#pragma once

#include <string>

namespace argosy::online {

// Throws the exception that is being handled again, with this text and ": "
// before its message: those of argosy/common/error.h as the same class, others
// as Error. Not installed.
[[noreturn]] void rethrow_behind(const std::string& text);

} // namespace argosy::online
