#pragma once

#include <optional>
#include <vector>

#include "argosy/pipeline/schedule.h"

// Which messages a schedule takes: they follow from where the parts are.
namespace argosy::pipeline {

// What one part has to tell its neighbour about a microbatch.
struct Message {
  bool is_gradient = false; // else activations
  int part = 0;             // that gets it
  int microbatch = 0;

  auto operator<=>(const Message&) const = default;
};

// What a step cannot begin without; none: nothing, or it is in the microbatch.
std::optional<Message> needed_by(
    const Schedule& schedule, int stage, const Step& step);

// What comes of a step for another part.
std::optional<Message> made_by(
    const Schedule& schedule, int stage, const Step& step);

// What a stage gets from another, in the order in which that one sends it.
std::vector<Message> messages_between(
    const Schedule& schedule, int from, int to);

} // namespace argosy::pipeline
