#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {

// F forward, B backward, I backward of inputs, W backward of weights.
char letter_of(Pass pass);

// Prints "F3" for microbatch 3, "F3.1" if it is of chunk 1.
std::ostream& operator<<(std::ostream& out, const Step& step);

// For example "F0 F1 B0 B1".
std::string steps_text(const std::vector<Step>& steps);

// The inverse of steps_text(). Throws InvalidArgument for an invalid step.
std::vector<Step> parse_steps(std::string_view text);

} // namespace argosy::pipeline
