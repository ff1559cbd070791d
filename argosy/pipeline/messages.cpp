#include "argosy/pipeline/messages.h"

namespace argosy::pipeline {

std::optional<Message> needed_by(
    const Schedule& schedule, int stage, const Step& step) {
  const int part = schedule.part_of(stage, step.chunk);
  switch (step.pass) {
    case Pass::kForward:
      return part > 0 ? std::optional(Message{false, part, step.microbatch})
                      : std::nullopt;
    case Pass::kBackward:
    case Pass::kBackwardInput:
      return part + 1 < schedule.parts()
          ? std::optional(Message{true, part, step.microbatch})
          : std::nullopt;
    case Pass::kBackwardWeight:
      break;
  }
  return std::nullopt;
}

// The counterpart of needed_by(): what a step of one part makes is the message
// that a step of the neighbouring part needs.
std::optional<Message> made_by(
    const Schedule& schedule, int stage, const Step& step) {
  const int part = schedule.part_of(stage, step.chunk);
  switch (step.pass) {
    case Pass::kForward:
      return part + 1 < schedule.parts()
          ? std::optional(Message{false, part + 1, step.microbatch})
          : std::nullopt;
    case Pass::kBackward:
    case Pass::kBackwardInput:
      return part > 0 ? std::optional(Message{true, part - 1, step.microbatch})
                      : std::nullopt;
    case Pass::kBackwardWeight:
      break;
  }
  return std::nullopt;
}

std::vector<Message> messages_between(
    const Schedule& schedule, int from, int to) {
  std::vector<Message> messages;
  for (const Step& step : schedule.steps[static_cast<std::size_t>(from)]) {
    const auto message = made_by(schedule, from, step);
    if (message && schedule.stage_of(message->part) == to) {
      messages.push_back(*message);
    }
  }
  return messages;
}

} // namespace argosy::pipeline
