#include "argosy/online/pass_files.h"

#include "argosy/common/error.h"
#include "argosy/fs/open.h"

namespace argosy::online {

namespace {

// URLs of the files that fit, behind a name, by name.
std::vector<std::string> fitting(
    const std::string& pattern, const std::string& after, Deadline deadline) {
  const std::size_t slash = pattern.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : pattern.substr(0, slash + 1);
  const std::string name =
      slash == std::string::npos ? pattern : pattern.substr(slash + 1);
  const fs::Location location = fs::open(folder);
  std::vector<std::string> urls;
  for (const fs::Entry& entry : location.fs->list(location.path, deadline)) {
    if (!entry.is_dir && entry.name > after && fits_pattern(entry.name, name)) {
      urls.push_back(fs::join_path(folder, entry.name));
    }
  }
  return urls;
}

bool exists(const std::string& url, Deadline deadline) {
  const fs::Location location = fs::open(url);
  return location.fs->stat(location.path, deadline).has_value();
}

} // namespace

bool fits_pattern(std::string_view name, std::string_view pattern) {
  // Where to go on if a guess of what the last '*' stands for was wrong.
  std::size_t star = std::string_view::npos;
  std::size_t behind_star = 0;
  std::size_t n = 0;
  std::size_t p = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind_star = n;
    } else if (
        p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++n;
      ++p;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++behind_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

PassFiles find_files(
    const Schedule& schedule, const PassPlan& plan, Deadline deadline) {
  PassFiles found;
  for (const std::string& ready : plan.ready) {
    if (!exists(ready, deadline)) {
      found.missing = ready;
      return found;
    }
  }
  for (const std::string& pattern : plan.files) {
    const auto files = fitting(pattern, plan.after.last_file, deadline);
    if (files.empty() && plan.ready.empty()) {
      found.missing = plan.after.last_file.empty()
          ? pattern
          : str_format("{} behind {}", pattern, plan.after.last_file);
      return found;
    }
    found.files.insert(found.files.end(), files.begin(), files.end());
  }
  const auto most = static_cast<std::size_t>(schedule.files_per_pass);
  if (most > 0 && found.files.size() > most) {
    found.files.resize(most);
  }
  return found;
}

} // namespace argosy::online
