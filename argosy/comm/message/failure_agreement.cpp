#include "argosy/comm/message/failure_agreement.h"

#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "argosy/comm/message/transfer_set.h"
#include "argosy/common/error.h"
#include "argosy/common/exit_note.h"
#include "argosy/common/log.h"
#include "argosy/common/rank_label.h"
#include "argosy/common/text.h"

namespace argosy::comm::message {

namespace {

using namespace std::chrono_literals;

constexpr char kVerdict[] = "verdict";
constexpr char kRoll[] = "roll";
// How long a break may precede the word of who made it.
constexpr auto kWordLimit = 400ms;
// How long members may take to answer the roll.
constexpr auto kRollLimit = 1000ms;
constexpr auto kPause = 2ms;

std::string present_key(int rank) {
  return str("present/", rank);
}

constexpr std::array kKinds = {
    Verdict::Kind::InvalidArgument,
    Verdict::Kind::TimeoutError,
    Verdict::Kind::PeerLost};

// Without this rank's label: others throw it too.
std::string plain_text(const std::exception& error) {
  return without_rank_label(error.what());
}

} // namespace

void Verdict::raise() const {
  switch (kind) {
    case Kind::InvalidArgument:
      throw InvalidArgument(message);
    case Kind::TimeoutError:
      throw TimeoutError(message);
    case Kind::PeerLost:
      break;
  }
  throw PeerLost(message);
}

std::string to_text(const Verdict& verdict) {
  return str(static_cast<int>(verdict.kind), " ", verdict.message);
}

Verdict parse_verdict(const std::string& text) {
  for (const Verdict::Kind kind : kKinds) {
    const std::string begin = str(static_cast<int>(kind), " ");
    if (text.starts_with(begin)) {
      return {kind, text.substr(begin.size())};
    }
  }
  return {Verdict::Kind::PeerLost, text};
}

FailureAgreement::FailureAgreement(Setup setup) : setup_(std::move(setup)) {}

int FailureAgreement::label(int rank) const {
  return setup_.labels.empty() ? rank
                               : setup_.labels[static_cast<std::size_t>(rank)];
}

void FailureAgreement::check() {
  const std::lock_guard lock(mutex_);
  if (verdict_) {
    verdict_->raise();
  }
}

void FailureAgreement::keep(const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  if (!verdict_) {
    verdict_ = verdict;
  }
}

// When the store is gone, the rank goes by what it saw itself.
std::optional<std::string> FailureAgreement::read(const std::string& key) {
  if (!setup_.failure_store) {
    return std::nullopt;
  }
  try {
    return setup_.failure_store->get(key);
  } catch (const std::exception& error) {
    log::debug("[comm] group {}: {}", setup_.group, error.what());
    return std::nullopt;
  }
}

std::optional<Verdict> FailureAgreement::posted() {
  const auto text = read(kVerdict);
  return text ? std::optional(parse_verdict(*text)) : std::nullopt;
}

std::optional<Verdict> FailureAgreement::await_posted(Deadline deadline) {
  for (;;) {
    auto found = posted();
    if (found || deadline.expired()) {
      return found;
    }
    std::this_thread::sleep_for(kPause);
  }
}

Verdict FailureAgreement::post(Verdict verdict) {
  if (setup_.failure_store) {
    try {
      verdict = parse_verdict(
          setup_.failure_store->claim(kVerdict, to_text(verdict)));
    } catch (const std::exception& error) {
      log::debug("[comm] group {}: {}", setup_.group, error.what());
    }
  }
  return verdict;
}

void FailureAgreement::answer_roll() {
  try {
    setup_.failure_store->set(present_key(setup_.rank), "here");
  } catch (const std::exception& error) {
    log::debug("[comm] group {}: {}", setup_.group, error.what());
  }
}

// Finds out who never entered the operation. Order matters: the roll is in the
// store before the cut, so that members whose transfers break find it there.
// They answer in lost(); members outside of any operation do not notice.
Verdict FailureAgreement::call_roll(const OpRecord& op, Deadline deadline) {
  const std::string begin = str("[comm.", to_string(op.kind), "] ");
  const std::string end = str_format(
      " of group {} did not come to {} within {}",
      setup_.group,
      describe_in_group(op),
      deadline.limit_text());
  if (!setup_.failure_store) {
    return {Verdict::Kind::TimeoutError, str(begin, "one of the ranks", end)};
  }
  answer_roll();
  try {
    setup_.failure_store->claim(kRoll, "called");
  } catch (const std::exception& error) {
    log::debug("[comm] group {}: {}", setup_.group, error.what());
  }
  setup_.cut("its time is up");
  std::vector<int> missing;
  const Deadline limit = Deadline::after(kRollLimit);
  do {
    if (auto theirs = posted()) {
      return *theirs;
    }
    missing.clear();
    for (int rank = 0; rank < setup_.size; ++rank) {
      if (!read(present_key(rank))) {
        missing.push_back(label(rank));
      }
    }
    std::this_thread::sleep_for(kPause);
  } while (!missing.empty() && !limit.expired());
  if (missing.empty()) {
    return {
        Verdict::Kind::TimeoutError,
        str_format(
            "{}all ranks of group {} came to {}, but did not end it within {}",
            begin,
            setup_.group,
            describe_in_group(op),
            deadline.limit_text())};
  }
  return {
      Verdict::Kind::TimeoutError,
      str(begin, "rank ", ranges_text(missing), end)};
}

// A transfer broke. The peer at its other end may have cut it on purpose, so
// the store's word comes first; only a silent store makes this rank blame the
// peer of the broken connection.
Verdict FailureAgreement::lost(
    const std::exception_ptr& error, const OpRecord& op) {
  // Whoever cut the connection has said why, unless it died.
  const Deadline limit = Deadline::after(kWordLimit);
  while (setup_.failure_store && !limit.expired()) {
    if (auto theirs = posted()) {
      return *theirs;
    }
    if (read(kRoll)) {
      answer_roll();
      setup_.cut("the roll is called");
      if (auto theirs = await_posted(Deadline::after(2 * kRollLimit))) {
        return *theirs;
      }
      break;
    }
    std::this_thread::sleep_for(kPause);
  }
  int who = label(setup_.rank);
  std::string why;
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionLost& lost_connection) {
    who = label(lost_connection.peer());
    why = plain_text(lost_connection);
  } catch (const PeerLost& named) {
    return {
        Verdict::Kind::PeerLost,
        str_format(
            "[comm.{}] group {} broke in {}: {}",
            to_string(op.kind),
            setup_.group,
            describe_in_group(op),
            plain_text(named))};
  } catch (const std::exception& own) {
    why = plain_text(own);
  }
  const std::string ended = setup_.labels.empty() ? "" : how_rank_ended(who);
  return {
      Verdict::Kind::PeerLost,
      str_format(
          "[comm.{}] {} in {}: {}",
          to_string(op.kind),
          gone_text({who}, setup_.group, ended.empty() ? "is gone" : ended),
          describe_in_group(op),
          why)};
}

void FailureAgreement::settle(
    const std::exception_ptr& error, const OpRecord& op, Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (verdict_) {
      verdict_->raise();
    }
  }
  Verdict verdict;
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& disagreement) {
    verdict = {Verdict::Kind::InvalidArgument, plain_text(disagreement)};
  } catch (const TimeoutError&) {
    verdict = call_roll(op, deadline);
  } catch (...) {
    verdict = lost(error, op);
  }
  // The first verdict in the store wins. It is posted before the cut, so that
  // members whose transfers the cut breaks find it.
  verdict = post(std::move(verdict));
  keep(verdict);
  setup_.cut(verdict.message);
  verdict.raise();
}

void FailureAgreement::abort(const std::string& reason) {
  const Verdict verdict = post(
      {Verdict::Kind::PeerLost,
       str_format(
           "[comm] group {} was aborted by rank {}: {}",
           setup_.group,
           label(setup_.rank),
           reason)});
  keep(verdict);
  setup_.cut(reason);
}

} // namespace argosy::comm::message
