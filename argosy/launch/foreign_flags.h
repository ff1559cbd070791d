#pragma once

#include <functional>
#include <string>

#include "argosy/launch/flags.h"

namespace argosy::launch {

// Replaces the flags of Paddle's launcher and of MindSpore's msrun by those of
// torchrun with the same meaning; docs/launch.md has the table. Throws
// InvalidArgument, with the flag to use instead, for those that have none.
// `is_local` says whether a host is this machine.
void translate_foreign_flags(
    CommandLine& line,
    const std::function<bool(const std::string& host)>& is_local);

} // namespace argosy::launch
