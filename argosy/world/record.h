#pragma once

#include <functional>
#include <string>

namespace argosy {

// Runs the body of a program. When it throws, prints the message with the rank,
// leaves it where the launcher looks for it (TORCHELASTIC_ERROR_FILE, so it
// stands first in the launcher's failure summary), and returns 1; else 0.
//
//   int main() { return argosy::record(train); }
int record(const std::function<void()>& body);

// The message of the exception in flight, with its type in front when it is not
// one of ours. For use in a catch block.
std::string current_exception_text();

} // namespace argosy
