#include "argosy/launch/logs.h"

#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "argosy/common/error.h"
#include "argosy/common/flight_file.h"
#include "argosy/common/text.h"

namespace argosy::launch {

int StreamChoice::of(int local_rank) const {
  const auto exception = by_local_rank.find(local_rank);
  return exception == by_local_rank.end() ? everyone : exception->second;
}

bool StreamChoice::any() const {
  for (const auto& [local_rank, streams] : by_local_rank) {
    if (streams != 0) {
      return true;
    }
  }
  return everyone != 0;
}

StreamChoice parse_streams(std::string_view text, std::string_view flag) {
  StreamChoice choice;
  const auto number = [&](std::string_view part, long long highest) {
    const auto value = parse_int(trim(part));
    ARGOSY_CHECK(
        value && *value >= 0 && *value <= highest,
        "[launch.options] {} {}: expected 0 (none), 1 (stdout), 2 (stderr), 3 "
        "(both), or such a number by local rank as in 0:1,1:2",
        flag,
        text);
    return static_cast<int>(*value);
  };
  if (text.find(':') == std::string_view::npos) {
    choice.everyone = number(text, 3);
    return choice;
  }
  for (const std::string& entry : split(text, ',')) {
    const std::string_view view = entry;
    const std::size_t colon = view.find(':');
    const bool pair = colon != std::string_view::npos;
    const int local_rank = number(view.substr(0, colon), 1 << 20);
    choice.by_local_rank[local_rank] =
        number(pair ? view.substr(colon + 1) : "", 3);
  }
  return choice;
}

std::ostream& operator<<(std::ostream& out, const StreamPlan& plan) {
  if (plan.file.empty()) {
    return out << (plan.console ? "console" : "/dev/null");
  }
  return out << plan.file << (plan.console ? " and console" : "");
}

std::string attempt_dir(std::string_view run_dir, int attempt) {
  return str(run_dir, "/attempt_", attempt);
}

bool has_flight_records(const std::string& dir) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dir, ignored)) {
    if (is_flight_record(entry.path())) {
      return true;
    }
  }
  return false;
}

std::string worker_log_dir(
    std::string_view run_dir, int attempt, std::string_view name) {
  return str(attempt_dir(run_dir, attempt), "/", name);
}

namespace {

void replace_all(
    std::string& text, std::string_view from, std::string_view to) {
  // Continues behind what it inserted, so that a role named like a pattern does
  // not loop forever.
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

} // namespace

std::string line_prefix(
    std::string_view form, std::string_view role, int local_rank, int rank) {
  std::string prefix(form.empty() ? "[${role_name}${local_rank}]:" : form);
  replace_all(prefix, "${role_name}", role);
  replace_all(prefix, "${local_rank}", std::to_string(local_rank));
  replace_all(prefix, "${rank}", std::to_string(rank));
  return prefix;
}

namespace {

std::filesystem::path run_dir_parent(const std::string& log_dir) {
  std::error_code error;
  std::filesystem::path parent = log_dir.empty()
      ? std::filesystem::temp_directory_path(error)
      : std::filesystem::absolute(log_dir, error);
  if (!error) {
    std::filesystem::create_directories(parent, error);
  }
  if (error) {
    throw SystemError(str_format(
        "[launch.logs] {}: {}",
        log_dir.empty() ? "TMPDIR" : "--log-dir " + log_dir,
        error.message()));
  }
  return parent;
}

} // namespace

std::string make_run_dir(
    const std::string& log_dir, const std::string& run_id) {
  std::filesystem::path parent = run_dir_parent(log_dir);
  // A run id may be a path or URL; here it must name one folder.
  std::string name = run_id;
  for (char& letter : name) {
    letter = letter == '/' ? '_' : letter;
  }
  // Two runs with the same id on one host get different folders.
  std::string pattern =
      (parent / str(log_dir.empty() ? "argosy_" : "", name, "_XXXXXX"))
          .string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw SystemError(with_errno(str_format(
        "[launch.logs] --log-dir {}: cannot create a folder in {}",
        log_dir,
        parent.string())));
  }
  std::error_code ignored; // mkdtemp() makes it private; logs need not be
  std::filesystem::permissions(pattern, std::filesystem::perms(0755), ignored);
  return pattern;
}

RunDir::RunDir(const std::string& log_dir, const std::string& run_id, bool keep)
    : path_(make_run_dir(log_dir, run_id)), keep_(keep) {}

RunDir::~RunDir() {
  if (!keep_) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

} // namespace argosy::launch
