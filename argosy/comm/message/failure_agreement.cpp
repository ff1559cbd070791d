#include "argosy/comm/message/failure_agreement.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "argosy/comm/message/transfer_set.h"
#include "argosy/common/error.h"
#include "argosy/common/exit_note.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/log.h"
#include "argosy/common/rank_label.h"
#include "argosy/common/text.h"
#include "argosy/common/timeline.h"

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
// A call of a store that is out of reach takes seconds, and the roll needs one
// for each member. Two in a row are enough to tell.
constexpr int kMostUnanswered = 2;

std::string present_key(int rank) {
  return str("present/", rank);
}

std::string heard_key(int rank) {
  return str("heard/", rank);
}

constexpr std::array kKinds = {
    Verdict::Kind::InvalidArgument,
    Verdict::Kind::TimeoutError,
    Verdict::Kind::PeerLost};

// Without this rank's label: others throw it too.
std::string plain_text(const std::exception& error) {
  return without_rank_label(error.what());
}

// Whom an operation waited for when it ended with `error`; -1: unknown.
int awaited_peer(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const TransferLate& late) {
    return late.peer();
  } catch (const ConnectionLost& lost) {
    return lost.peer();
  } catch (...) {
    return -1;
  }
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

bool FailureAgreement::store_is_silent() const {
  return num_unanswered_ >= kMostUnanswered;
}

// When the store is gone, the rank goes by what it saw itself.
template <typename Call>
auto FailureAgreement::ask(const Call& call)
    -> std::optional<decltype(call())> {
  try {
    auto answer = call();
    num_unanswered_ = 0;
    return answer;
  } catch (const std::exception& error) {
    ++num_unanswered_;
    log::debug("[comm] group {}: {}", setup_.group, error.what());
    return std::nullopt;
  }
}

std::optional<std::string> FailureAgreement::read(const std::string& key) {
  if (!setup_.failure_store || store_is_silent()) {
    return std::nullopt;
  }
  return ask([&] { return setup_.failure_store->get(key); })
      .value_or(std::nullopt);
}

std::optional<Verdict> FailureAgreement::posted() {
  const auto text = read(kVerdict);
  return text ? std::optional(parse_verdict(*text)) : std::nullopt;
}

std::optional<Verdict> FailureAgreement::await_posted(Deadline deadline) {
  for (;;) {
    auto found = posted();
    if (found || deadline.expired() || store_is_silent()) {
      return found;
    }
    sleep_for(kPause);
  }
}

Verdict FailureAgreement::post(Verdict verdict) {
  if (!setup_.failure_store) {
    return verdict;
  }
  const auto held = ask(
      [&] { return setup_.failure_store->claim(kVerdict, to_text(verdict)); });
  return held ? parse_verdict(*held) : verdict;
}

void FailureAgreement::answer_roll(int awaited) {
  ask([&] {
    setup_.failure_store->set(present_key(setup_.rank), str(awaited));
    return true;
  });
  answered_roll_ = true;
}

// The rank that serves the store ends soon after its error. Whoever has
// answered the roll polls the store, and must find the verdict before that.
void FailureAgreement::await_hearers() {
  if (!answered_roll_ || store_is_silent()) {
    return;
  }
  ask([&] {
    setup_.failure_store->set(heard_key(setup_.rank), "");
    return true;
  });
  std::vector<int> left;
  for (int rank = 0; rank < setup_.size; ++rank) {
    if (rank != setup_.rank && read(present_key(rank))) {
      left.push_back(rank);
    }
  }
  const Deadline limit = Deadline::after(kWordLimit);
  while (!limit.expired() && !store_is_silent()) {
    std::erase_if(
        left, [&](int rank) { return read(heard_key(rank)).has_value(); });
    if (left.empty()) {
      return;
    }
    sleep_for(kPause);
  }
}

// Finds out who never entered the operation. Order matters: the roll is in the
// store before the cut, so that members whose transfers break find it there.
// They answer in lost(); members outside of any operation do not notice.
Verdict FailureAgreement::call_roll(
    const OpRecord& op, Deadline deadline, int awaited) {
  const std::string begin = str("[comm.", to_string(op.kind), "] ");
  const std::string end = str_format(
      " of group {} did not come to {} within {}",
      setup_.group,
      describe_in_group(op),
      deadline.limit_text());
  if (!setup_.failure_store) {
    return {Verdict::Kind::TimeoutError, str(begin, "one of the ranks", end)};
  }
  answer_roll(awaited);
  ask([&] { return setup_.failure_store->claim(kRoll, "called"); });
  fault_point("message.roll");
  setup_.cut("its time is up");
  Roll roll;
  const Deadline limit = Deadline::after(kRollLimit);
  do {
    if (auto theirs = posted()) {
      return *theirs;
    }
    roll = read_roll();
    sleep_for(kPause);
  } while (!roll.missing.empty() && !limit.expired() && !store_is_silent());
  if (store_is_silent()) {
    return {
        Verdict::Kind::TimeoutError,
        str(begin,
            awaited < 0 ? "one of the ranks" : str("rank ", label(awaited)),
            end,
            ", and the group's store does not answer")};
  }
  const std::vector<int> late = blamed(roll);
  if (late.empty()) {
    return {
        Verdict::Kind::TimeoutError,
        str_format(
            "{}all ranks of group {} came to {}, but did not end it within {}",
            begin,
            setup_.group,
            describe_in_group(op),
            deadline.limit_text())};
  }
  // Among three or more, those who wait for one that is late answer too. If
  // nobody does, all others are away, or all came at the last moment and are
  // done: what they sent was still on its way.
  if (setup_.size > 2 && std::cmp_equal(roll.missing.size(), setup_.size - 1)) {
    return {
        Verdict::Kind::TimeoutError,
        str(begin,
            "rank ",
            ranges_text(roll.missing),
            end,
            ", or ended it just then")};
  }
  return {
      Verdict::Kind::TimeoutError, str(begin, "rank ", ranges_text(late), end)};
}

FailureAgreement::Roll FailureAgreement::read_roll() {
  Roll roll;
  for (int rank = 0; rank < setup_.size; ++rank) {
    const auto answer = read(present_key(rank));
    const auto whom = answer ? parse_int(*answer) : std::nullopt;
    if (!answer) {
      roll.missing.push_back(label(rank));
    } else if (whom && *whom >= 0 && *whom < setup_.size) {
      roll.awaited.push_back(label(static_cast<int>(*whom)));
    } else {
      roll.all_say = false;
    }
  }
  return roll;
}

// Of those that are missing, the ones that others wait for. The rest has
// completed the operation: all that they had to send is there.
std::vector<int> FailureAgreement::blamed(const Roll& roll) {
  std::vector<int> ranks;
  for (const int rank : roll.missing) {
    if (std::ranges::find(roll.awaited, rank) != roll.awaited.end()) {
      ranks.push_back(rank);
    }
  }
  return ranks.empty() && !roll.all_say ? roll.missing : ranks;
}

// A transfer broke. The peer at its other end may have cut it on purpose, so
// the store's word comes first; only a silent store makes this rank blame the
// peer of the broken connection.
Verdict FailureAgreement::lost(
    const std::exception_ptr& error, const OpRecord& op) {
  // Whoever cut the connection has said why, unless it died.
  const Deadline limit = Deadline::after(kWordLimit);
  while (setup_.failure_store && !limit.expired() && !store_is_silent()) {
    if (auto theirs = posted()) {
      return *theirs;
    }
    if (read(kRoll)) {
      answer_roll(awaited_peer(error));
      setup_.cut("the roll is called");
      if (auto theirs = await_posted(Deadline::after(2 * kRollLimit))) {
        return *theirs;
      }
      break;
    }
    sleep_for(kPause);
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
    verdict = call_roll(op, deadline, awaited_peer(error));
  } catch (...) {
    verdict = lost(error, op);
  }
  // The first verdict in the store wins. It is posted before the cut, so that
  // members whose transfers the cut breaks find it.
  verdict = post(std::move(verdict));
  fault_point("message.verdict");
  keep(verdict);
  setup_.cut(verdict.message);
  await_hearers();
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
