#include "argosy/world/rendezvous.h"

#include <arpa/inet.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <tuple>
#include <vector>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/common/wait_notice.h"

namespace argosy {

namespace {

using std::chrono::milliseconds;

std::vector<std::uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<std::uint8_t>& value) {
  return {value.begin(), value.end()};
}

// Sets the key unless it exists; returns its value.
std::string claim(
    c10d::Store& store, const std::string& key, const std::string& value) {
  return text_of(store.compareSet(key, {}, bytes(value)));
}

std::string member_key(int rank) {
  return str("member/", rank);
}

// One request per rank, so only for messages, not in the loop that waits.
std::vector<int> missing_ranks(c10d::Store& store, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.check({member_key(rank)})) {
      missing.push_back(rank);
    }
  }
  return missing;
}

// Polls `done` until it is true. Does not use Store::wait(), since a wait that
// times out leaves the connection of c10d's TCP store unusable, and we still
// want to ask who is missing.
bool poll_until(
    const std::function<bool()>& done,
    Deadline deadline,
    const std::function<void(milliseconds)>& progress) {
  WaitNotice notice;
  // Short at first, since ranks usually start together; up to 10 ms, because
  // all ranks poll one server.
  Backoff backoff(std::chrono::microseconds(100), milliseconds(10));
  while (!done()) {
    if (deadline.expired()) {
      return false;
    }
    backoff.pause(deadline);
    if (const auto waited = notice.due()) {
      progress(*waited);
    }
  }
  return true;
}

constexpr char kAllHere[] = "all here";

// Returns what is wrong with our claim to be `rank` of `size`, or "".
std::string claim_membership(
    c10d::Store& store, int rank, int size, const std::string& who) {
  // The size first: with different sizes, ranks would wait for different
  // numbers of peers.
  const std::string agreed = claim(store, "size", std::to_string(size));
  if (agreed != std::to_string(size)) {
    return str_format(
        "[world.init] rank {} ({}) was told that the world has {} ranks, "
        "another rank was told {}",
        rank,
        who,
        size,
        agreed);
  }
  const std::string holder = claim(store, member_key(rank), who);
  if (holder != who) {
    return str_format(
        "[world.init] rank {} is claimed twice, by {} and by {} (or the store "
        "still holds an earlier run)",
        rank,
        holder,
        who);
  }
  return "";
}

} // namespace

// All ranks meet through these keys of the store:
//   size           what the first rank was told; the others compare
//   member/<rank>  who holds the rank; finds two processes with one rank
//   came/<rank>    counts how often the rank has come
//   arrived        counter of ranks
//   verdict        "all here" from the last rank to arrive, or a conflict
// So each rank polls a single key, whatever the size of the world, and a
// conflict that one rank finds ends the wait of all.
void rendezvous(
    c10d::Store& store,
    int rank,
    int size,
    const std::string& who,
    Deadline deadline) {
  const std::string conflict = claim_membership(store, rank, size, who);
  if (!conflict.empty()) {
    // Ranks that wait for this one should learn of the conflict too.
    claim(store, "verdict", conflict);
    throw InvalidArgument(conflict);
  }
  // Once for each rank: one that gave up and comes again has arrived already.
  const bool is_new = store.add(str("came/", rank), 1) == 1;
  if (store.add("arrived", is_new ? 1 : 0) == size) {
    claim(store, "verdict", kAllHere);
  }
  const bool all_here = poll_until(
      [&] { return store.check({"verdict"}); },
      deadline,
      [&](milliseconds waited) {
        log::warn(
            "[world.init] waiting for rank {} of {} for {}, giving up after {}",
            ranges_text(missing_ranks(store, size)),
            size,
            duration_text(waited),
            deadline.limit_text());
      });
  if (!all_here) {
    throw TimeoutError(str_format(
        "[world.init] rank {} of {} did not come within {}; rank {} is {}",
        ranges_text(missing_ranks(store, size)),
        size,
        deadline.limit_text(),
        rank,
        who));
  }
  const std::string verdict = text_of(store.get("verdict"));
  ARGOSY_CHECK(verdict == kAllHere, verdict);
}

std::string departure_key(int rank) {
  return str("farewell/", rank);
}

namespace {

struct Arrival {
  std::string address;
  std::string id;
  std::int64_t ticket;

  // Numeric addresses compare bytewise and sort before names.
  std::tuple<bool, std::string, std::string, std::string, std::int64_t> key()
      const {
    in_addr parsed{};
    const bool numeric = ::inet_pton(AF_INET, address.c_str(), &parsed) == 1;
    const std::string packed(
        reinterpret_cast<const char*>(&parsed), sizeof(parsed));
    return {!numeric, numeric ? packed : "", address, id, ticket};
  }
};

Arrival read_arrival(c10d::Store& store, std::int64_t ticket) {
  const std::string value = text_of(store.get(str("arrival/", ticket)));
  const std::size_t space = value.find(' ');
  return {value.substr(0, space), value.substr(space + 1), ticket};
}

} // namespace

int rank_by_arrival(
    c10d::Store& store,
    int size,
    const std::string& address,
    const std::string& id,
    Deadline deadline) {
  const std::int64_t ticket = store.add("arrivals", 1) - 1;
  ARGOSY_CHECK(
      ticket < size,
      "[world.init] {} on {} is number {} of a world of {}: one process too "
      "many",
      id,
      address,
      ticket + 1,
      size);
  store.set(str("arrival/", ticket), bytes(str(address, " ", id)));
  std::int64_t come = 0;
  // `come` only grows, so that all polls together cost one check per process,
  // plus one per poll.
  const auto all_here = [&] {
    while (come < size && store.check({str("arrival/", come)})) {
      ++come;
    }
    return come == size;
  };
  const auto progress = [&](milliseconds waited) {
    log::warn(
        "[world.init] {} of {} processes came in {}, giving up after {}",
        come,
        size,
        duration_text(waited),
        deadline.limit_text());
  };
  if (!poll_until(all_here, deadline, progress)) {
    throw TimeoutError(str_format(
        "[world.init] {} of {} processes came within {}",
        come,
        size,
        deadline.limit_text()));
  }
  std::vector<Arrival> arrivals;
  for (std::int64_t other = 0; other < size; ++other) {
    arrivals.push_back(read_arrival(store, other));
  }
  // Every process sorts the same list, so the ranks are distinct and do not
  // depend on who came first.
  std::ranges::sort(
      arrivals, [](const auto& a, const auto& b) { return a.key() < b.key(); });
  const auto self = std::ranges::find_if(
      arrivals, [&](const Arrival& a) { return a.ticket == ticket; });
  return static_cast<int>(self - arrivals.begin());
}

} // namespace argosy
