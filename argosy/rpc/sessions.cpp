#include "argosy/rpc/sessions.h"

#include <algorithm>
#include <cstring>

namespace argosy::rpc {

namespace {

// Of an entry without what it carries; so that empty answers count, too.
constexpr std::size_t kEntryBytes = 256;

Bytes own_copy(const Bytes& part) {
  if (part.keeper != nullptr || part.size == 0) {
    return part;
  }
  return Bytes::owned(std::string(part.text()));
}

} // namespace

Session::~Session() {
  for (const auto& [sequence, entry] : entries_) {
    release(entry);
  }
}

void Session::release(const Entry& entry) {
  kept_->used -= entry.bytes;
  if (entry.answer != nullptr) {
    --kept_->answers;
  }
}

// Calls below that still run were given up by the caller.
void Session::drop_below(std::uint64_t confirmed) {
  confirmed_ = std::max(confirmed_, confirmed);
  const auto end = entries_.lower_bound(confirmed_);
  for (auto entry = entries_.begin(); entry != end; ++entry) {
    release(entry->second);
  }
  entries_.erase(entries_.begin(), end);
}

void Session::confirm(std::uint64_t confirmed) {
  const std::lock_guard lock(mutex_);
  drop_below(confirmed);
}

Session::Begun Session::begin(std::uint64_t sequence, std::uint64_t confirmed) {
  const std::lock_guard lock(mutex_);
  drop_below(confirmed);
  if (sequence < confirmed_) {
    return {Verdict::Stale};
  }
  const auto found = entries_.find(sequence);
  if (found != entries_.end()) {
    return found->second.answer == nullptr
        ? Begun{Verdict::UnderWay}
        : Begun{Verdict::Answered, found->second.answer};
  }
  if (kept_->used + kEntryBytes > kept_->limit) {
    return {Verdict::Full};
  }
  kept_->used += kEntryBytes;
  entries_.emplace(sequence, Entry{.bytes = kEntryBytes});
  return {Verdict::Run};
}

std::shared_ptr<const Answer> Session::finish(
    std::uint64_t sequence, Answer answer) {
  for (Bytes& part : answer.message.parts) {
    part = own_copy(part);
  }
  const auto kept = std::make_shared<const Answer>(std::move(answer));
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(sequence);
  if (found != entries_.end()) {
    found->second.answer = kept;
    found->second.bytes += kept->message.bytes();
    kept_->used += kept->message.bytes();
    ++kept_->answers;
  }
  return kept;
}

void Session::forget(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(sequence);
  if (found != entries_.end()) {
    release(found->second);
    entries_.erase(found);
  }
}

Sessions::Sessions(std::size_t kept_bytes, Limits limits)
    : limits_(limits), kept_(std::make_shared<KeptBytes>()) {
  kept_->limit = kept_bytes;
}

bool Sessions::knows(const std::string& name) const {
  return known_.contains(name);
}

std::shared_ptr<Session> Sessions::enter(const std::string& name) {
  Known& known = known_[name];
  if (known.session == nullptr) {
    known.session = std::make_shared<Session>(kept_);
  }
  ++known.connections;
  absent_.remove(name);
  return known.session;
}

void Sessions::leave(const std::string& name, Deadline::Clock::time_point now) {
  const auto found = known_.find(name);
  if (found != known_.end() && --found->second.connections == 0) {
    found->second.left = now;
    absent_.push_back(name);
  }
  drop_old(now);
}

void Sessions::drop_old(Deadline::Clock::time_point now) {
  while (!absent_.empty() &&
         (absent_.size() > limits_.absent ||
          known_.at(absent_.front()).left + limits_.absence < now)) {
    known_.erase(absent_.front());
    absent_.pop_front();
  }
}

} // namespace argosy::rpc
