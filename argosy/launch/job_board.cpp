#include "argosy/launch/job_board.h"

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

// The number behind `prefix`, if `name` is such a name.
std::optional<int> number_behind(
    const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  const auto number = parse_int(name.substr(prefix.size()));
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

void read_entry(
    AttemptState& state, const std::string& name, const std::string& value) {
  if (const auto node = number_behind(name, "node/")) {
    state.nodes[*node] = value;
  } else if (const auto done = number_behind(name, "done/")) {
    state.done.insert(*done);
  } else if (name == "closed") {
    state.closed = value;
  } else if (name == "error") {
    state.error = value;
  } else if (name == "ending") {
    state.ending = value;
  } else if (name == "hang_asks") {
    state.hang_asks = value;
  }
}

} // namespace

std::string AttemptId::text() const {
  return str(epoch, ".", restarts);
}

AttemptId AttemptId::parse(const std::string& text) {
  const auto parts = split(text, '.');
  const auto epoch = parse_int(parts.size() == 2 ? parts[0] : "");
  const auto restarts = parse_int(parts.size() == 2 ? parts[1] : "");
  if (!epoch || !restarts) {
    throw StoreError(
        str("[launch.rendezvous] bad attempt \"",
            text,
            "\", expected <epoch>.<restarts>"));
  }
  return {static_cast<int>(*epoch), static_cast<int>(*restarts)};
}

JobBoard::JobBoard(store::Kv& kv, const std::string& run_id)
    : kv_(kv),
      base_(str("argosy/", run_id, "/")),
      attempt_key_(base_ + "attempt") {}

std::string JobBoard::key(
    const AttemptId& attempt, std::string_view name) const {
  return str(base_, attempt.text(), "/", name);
}

void JobBoard::open(Deadline deadline) {
  kv_.compare_set(attempt_key_, std::nullopt, AttemptId{}.text(), deadline);
}

AttemptId JobBoard::current(Deadline deadline) {
  return AttemptId::parse(kv_.get(attempt_key_, deadline).value_or(""));
}

void JobBoard::move(
    const AttemptId& from, const AttemptId& to, Deadline deadline) {
  kv_.compare_set(attempt_key_, from.text(), to.text(), deadline);
}

AttemptState JobBoard::look(const AttemptId& attempt, Deadline deadline) {
  AttemptState state;
  const std::string prefix = key(attempt, "");
  for (const auto& [name, value] : kv_.list(prefix, deadline)) {
    read_entry(state, name.substr(prefix.size()), value);
  }
  return state;
}

int JobBoard::arrive(const AttemptId& attempt, Deadline deadline) {
  return static_cast<int>(kv_.add(key(attempt, "arrivals"), 1, deadline));
}

void JobBoard::publish(
    const AttemptId& attempt,
    int arrival,
    const std::string& record,
    const store::Lease& lease,
    Deadline deadline) {
  kv_.set(key(attempt, str("node/", arrival)), record, deadline, &lease);
}

void JobBoard::withdraw(
    const AttemptId& attempt, int arrival, Deadline deadline) {
  kv_.erase(key(attempt, str("node/", arrival)), deadline);
}

void JobBoard::close(
    const AttemptId& attempt, const std::string& list, Deadline deadline) {
  kv_.compare_set(key(attempt, "closed"), std::nullopt, list, deadline);
}

void JobBoard::refuse(
    const AttemptId& attempt, const std::string& error, Deadline deadline) {
  kv_.compare_set(key(attempt, "error"), std::nullopt, error, deadline);
}

std::string JobBoard::end(
    const AttemptId& attempt, const std::string& ending, Deadline deadline) {
  return kv_.compare_set(key(attempt, "ending"), std::nullopt, ending, deadline)
      .value.value_or(ending);
}

// Without a lease: the key must outlive its launcher, or the others would take
// its end for a loss.
void JobBoard::tell_done(
    const AttemptId& attempt, int arrival, Deadline deadline) {
  kv_.set(key(attempt, str("done/", arrival)), "1", deadline);
}

std::string JobBoard::hang_asks_key(const AttemptId& attempt) const {
  return key(attempt, "hang_asks");
}

std::string JobBoard::hang_answers_prefix(const AttemptId& attempt) const {
  return str(base_, "hang/", attempt.text(), "/");
}

} // namespace argosy::launch
