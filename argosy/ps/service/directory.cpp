#include "argosy/ps/service/directory.h"

#include <sstream>

#include "argosy/common/error.h"
#include "argosy/store/kv.h"

namespace argosy::ps {

std::string to_text(const ServerRecord& record) {
  std::ostringstream out;
  out << record.incarnation << ' ' << record.logs.size();
  for (const auto& [region, log] : record.logs) {
    out << ' ' << region << ' ' << log.epoch << ' ' << log.number;
  }
  out << '\n' << record.address;
  return out.str();
}

ServerRecord server_record_of(std::string_view text) {
  const std::size_t line = text.find('\n');
  std::istringstream in{std::string(text.substr(0, line))};
  ServerRecord record;
  std::size_t num_logs = 0;
  bool good = line != std::string_view::npos &&
      static_cast<bool>(in >> record.incarnation >> num_logs);
  for (std::size_t i = 0; good && i < num_logs; ++i) {
    int region = 0;
    LogPosition log;
    good = static_cast<bool>(in >> region >> log.epoch >> log.number);
    record.logs[region] = log;
  }
  if (!good) {
    throw StoreError(
        str_format("[ps.directory] '{}' is no record of a server", text));
  }
  record.address = std::string(text.substr(line + 1));
  return record;
}

Directory::Directory(std::shared_ptr<store::Kv> kv, std::string prefix)
    : kv_(std::move(kv)), prefix_(std::move(prefix)) {}

void Directory::register_server(
    int server, const ServerRecord& record, Deadline deadline) {
  kv_->set(key(str("server/", server)), to_text(record), deadline);
}

std::map<int, ServerRecord> Directory::servers(Deadline deadline) {
  const std::string prefix = key("server/");
  std::map<int, ServerRecord> result;
  for (const auto& [name, text] : kv_->list(prefix, deadline)) {
    result[std::stoi(name.substr(prefix.size()))] = server_record_of(text);
  }
  return result;
}

std::optional<Lineup> Directory::lineup(int region, Deadline deadline) {
  const auto text = kv_->get(key(str("lineup/", region)), deadline);
  return text ? std::optional(lineup_of(*text)) : std::nullopt;
}

Lineup Directory::replace_lineup(
    int region,
    const std::optional<Lineup>& expected,
    const Lineup& desired,
    Deadline deadline) {
  const std::string name = key(str("lineup/", region));
  const auto result = kv_->compare_set(
      name,
      expected ? std::optional(to_text(*expected)) : std::nullopt,
      to_text(desired),
      deadline);
  if (!result.swapped && !result.value) {
    throw StoreError(str_format("[ps.directory] {} has disappeared", name));
  }
  return result.swapped ? desired : lineup_of(*result.value);
}

std::uint64_t Directory::next_incarnation(Deadline deadline) {
  return static_cast<std::uint64_t>(kv_->add(key("incarnation"), 1, deadline));
}

void Directory::set_stopped(Deadline deadline) {
  kv_->set(key("stopped"), "1", deadline);
}

bool Directory::is_stopped(Deadline deadline) {
  return kv_->get(key("stopped"), deadline).has_value();
}

} // namespace argosy::ps
