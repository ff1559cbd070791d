#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

// Which servers hold a region. The record lies in the job's store and
// changes by compare-and-swap alone, so that two servers never lead at once:
// the epoch grows with each change, and members refuse what comes from an
// earlier one. Pure.
namespace argosy::ps {

// One run of a server's process. A server that comes back without its memory
// has another incarnation, so nobody takes it for a member of before.
struct Member {
  int server = -1;
  std::uint64_t incarnation = 0;

  bool operator==(const Member&) const = default;
};

// A push counts when all members of the lineup have it.
struct Lineup {
  std::uint64_t epoch = 0;
  Member leader;
  std::optional<Member> backup; // holds all that was acknowledged

  bool operator==(const Lineup&) const = default;
};

// "7 0:42 1:43" or "7 0:42 -". lineup_of() throws StoreError, showing the text.
std::string to_text(const Lineup& lineup);
Lineup lineup_of(std::string_view text);
std::ostream& operator<<(std::ostream& out, const Lineup& lineup);

// The record after the leader was lost: the backup leads alone.
Lineup after_leader_lost(const Lineup& lineup);

// The record after the backup was lost: the leader goes on alone.
Lineup after_backup_lost(const Lineup& lineup);

// The record once `member` has caught up with the leader.
Lineup with_backup(const Lineup& lineup, const Member& member);

// The record once a new run of a member has read its log.
Lineup recovered_by(const Lineup& lineup, const Member& member);

} // namespace argosy::ps
