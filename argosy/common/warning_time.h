#pragma once

#include <chrono>
#include <string>

#include "argosy/common/environment.h"

namespace argosy {

// How long something may take until somebody is warned, as a variable says: 60,
// 500ms, 2m; 0: nobody is. Throws InvalidArgument for a value that is no time.
std::chrono::milliseconds warning_time(
    const Environment& environment,
    const std::string& variable,
    const std::string& unless_set);

} // namespace argosy
