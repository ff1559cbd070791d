#include "argosy/common/warning_time.h"

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy {

std::chrono::milliseconds warning_time(
    const Environment& environment,
    const std::string& variable,
    const std::string& unless_set) {
  const std::string text = environment.get(variable, unless_set);
  const auto seconds = parse_seconds(text);
  ARGOSY_CHECK(
      seconds && *seconds >= 0,
      "[env] {} is {}, expected a time such as 60, 500ms or 2m, or 0 for none",
      variable,
      text);
  return std::chrono::milliseconds(static_cast<long long>(*seconds * 1000));
}

} // namespace argosy
