#pragma once

#include <string>
#include <string_view>

#include "argosy/pipeline/costs.h"

// Schedules and costs as files that people can read and write.
namespace argosy::pipeline {

// {"name": "1f1b", "stages": 2, "microbatches": 2, "chunks": 1,
//  "order": "round", "steps": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}
// with order "round" or "v", and steps by stage (see step_text.h).
std::string to_json(const Schedule& schedule);

// Throws InvalidArgument, which starts with `where`, when that is not what the
// text has; and as parse_steps() and verify() do.
Schedule schedule_from_json(std::string_view text, const std::string& where);

// {"message": 0.1, "kept_after_input": 1,
//  "parts": [{"forward": 1, "input": 1, "weight": 1, "memory": 4096}, ...]}
// where all but the parts and their three times may be left out.
std::string to_json(const Costs& costs);
Costs costs_from_json(std::string_view text, const std::string& where);

} // namespace argosy::pipeline
