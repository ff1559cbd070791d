#pragma once

#include <functional>
#include <string>

namespace argosy {

// Runs the body of a program and returns its exit code. If it throws, prints
// the message with the rank, writes it to the launcher's error file
// (TORCHELASTIC_ERROR_FILE), so that it appears in the launcher's failure
// summary, and returns 1.
//
//   int main() { return argosy::record(train); }
int record(const std::function<void()>& body);

// Returns the message of the current exception, with its type if it is not one
// of Argosy's. Call it in a catch block.
std::string current_exception_text();

} // namespace argosy
