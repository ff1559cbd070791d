#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {

// F forward, B backward, I and W backward of inputs and of weights.
char letter_of(Pass pass);

// "F3" for microbatch 3; "F3.1" for that of chunk 1.
std::ostream& operator<<(std::ostream& out, const Step& step);

// "F0 F1 B0 B1".
std::string steps_text(const std::vector<Step>& steps);

// The other way. Throws InvalidArgument for a word that is no step.
std::vector<Step> parse_steps(std::string_view text);

} // namespace argosy::pipeline
