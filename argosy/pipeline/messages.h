#pragma once

#include <optional>
#include <vector>

#include "argosy/pipeline/schedule.h"

// The messages of a schedule. They follow from the placement of the parts.
namespace argosy::pipeline {

// Tensors that one part sends to a neighbouring part for a microbatch.
struct Message {
  bool is_gradient = false; // else activations
  int part = 0;             // the receiving part
  int microbatch = 0;

  auto operator<=>(const Message&) const = default;
};

// The message that a step waits for; nullopt if it needs none.
std::optional<Message> needed_by(
    const Schedule& schedule, int stage, const Step& step);

// The message that a step produces; nullopt if none.
std::optional<Message> made_by(
    const Schedule& schedule, int stage, const Step& step);

// The messages from one stage to another, in the order in which they are sent.
std::vector<Message> messages_between(
    const Schedule& schedule, int from, int to);

} // namespace argosy::pipeline
