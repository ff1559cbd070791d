#include "argosy/rpc/error.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace argosy::rpc {

std::string demangled(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : type.name();
}

std::string_view to_string(Failure failure) {
  switch (failure) {
    case Failure::Timeout:
      return "timeout";
    case Failure::PeerLost:
      return "peer lost";
    case Failure::Refused:
      return "refused";
    case Failure::Remote:
      return "remote exception";
    case Failure::Cancelled:
      return "cancelled";
  }
  return "?";
}

ExceptionText describe(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return {demangled(typeid(error)), error.what()};
  } catch (...) {
    return {"unknown", "an exception that is no std::exception"};
  }
}

} // namespace argosy::rpc
