#include "argosy/world/record.h"

#include <cxxabi.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <typeinfo>

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/error_file.h"
#include "argosy/common/rank_label.h"

namespace argosy {

namespace {

std::string demangled(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : type.name();
}

// Of now. Ranks fail within milliseconds of each other, and the first of them
// is the cause.
ErrorReport report_of(const std::string& message) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {
      .message = message,
      .timestamp = std::chrono::floor<std::chrono::seconds>(now).count(),
      .timestamp_ns =
          std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()};
}

void report_to_launcher(const std::string& message) {
  const auto path = Environment::of_process().find("TORCHELASTIC_ERROR_FILE");
  if (!path) {
    return;
  }
  try {
    write_error_file(*path, report_of(message));
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
  }
}

} // namespace

std::string current_exception_text() {
  try {
    throw;
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return demangled(typeid(error)) + ": " + error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

int record(const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (...) {
    const std::string message = current_exception_text();
    const std::string label = rank_label();
    std::cerr << str(
        "error", label.empty() ? "" : " on rank ", label, ": ", message, "\n");
    report_to_launcher(message);
    return 1;
  }
}

} // namespace argosy
