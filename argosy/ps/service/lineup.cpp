#include "argosy/ps/service/lineup.h"

#include <ostream>
#include <sstream>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

bool parse_member(const std::string& text, Member& member) {
  std::istringstream in(text);
  char colon = 0;
  return in >> member.server >> colon >> member.incarnation && colon == ':' &&
      in.eof() && member.server >= 0;
}

} // namespace

std::ostream& operator<<(std::ostream& out, const Lineup& lineup) {
  out << lineup.epoch << ' ' << lineup.leader.server << ':'
      << lineup.leader.incarnation << ' ';
  if (!lineup.backup) {
    return out << '-';
  }
  return out << lineup.backup->server << ':' << lineup.backup->incarnation;
}

std::string to_text(const Lineup& lineup) {
  return str(lineup);
}

Lineup lineup_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  Lineup lineup;
  std::string leader;
  std::string backup;
  std::string more;
  bool good = in >> lineup.epoch >> leader >> backup && !(in >> more) &&
      parse_member(leader, lineup.leader);
  if (good && backup != "-") {
    good = parse_member(backup, lineup.backup.emplace());
  }
  if (!good) {
    throw StoreError(str_format(
        "[ps.lineup] '{}', expected an epoch, a leader and a backup", text));
  }
  return lineup;
}

Lineup after_leader_lost(const Lineup& lineup) {
  ARGOSY_ASSERT(lineup.backup.has_value());
  return {lineup.epoch + 1, *lineup.backup, std::nullopt};
}

Lineup after_backup_lost(const Lineup& lineup) {
  return {lineup.epoch + 1, lineup.leader, std::nullopt};
}

Lineup with_backup(const Lineup& lineup, const Member& member) {
  return {lineup.epoch + 1, lineup.leader, member};
}

Lineup recovered_by(const Lineup& lineup, const Member& member) {
  return {lineup.epoch + 1, member, std::nullopt};
}

} // namespace argosy::ps
