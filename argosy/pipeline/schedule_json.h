#pragma once

#include <string>
#include <string_view>

#include "argosy/pipeline/part_costs.h"

// Schedules and costs as JSON files.
namespace argosy::pipeline {

// {"name": "1f1b", "stages": 2, "microbatches": 2, "chunks": 1,
//  "order": "round", "steps": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}
// "order" is "round" or "v"; "steps" has one string per stage (step_text.h).
std::string to_json(const Schedule& schedule);

// Throws InvalidArgument, with a message that starts with `where`, when the
// text does not have this form; also throws as parse_steps() and verify() do.
Schedule schedule_from_json(std::string_view text, const std::string& where);

// {"message": 0.1, "kept_after_input": 1,
//  "parts": [{"forward": 1, "input": 1, "weight": 1, "memory": 4096}, ...]}
// Only "parts" and their three times are required.
std::string to_json(const PartCosts& costs);
PartCosts costs_from_json(std::string_view text, const std::string& where);

} // namespace argosy::pipeline
