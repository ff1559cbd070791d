#include "argosy/fs/file_system.h"

namespace argosy::fs {

namespace {

std::string_view without_slashes_at_end(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  return path;
}

} // namespace

void Writer::write_at(std::uint64_t, std::span<const std::byte>, Deadline) {
  throw InvalidArgument(
      "[fs.write_at] this file system writes in order only: use write(), or "
      "ask can_write_at() first");
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) {
    return std::string(name);
  }
  folder = without_slashes_at_end(folder);
  while (name.starts_with('/')) {
    name.remove_prefix(1);
  }
  return str(folder, folder.ends_with('/') ? "" : "/", name);
}

std::string base_name(std::string_view path) {
  path = without_slashes_at_end(path);
  const std::size_t slash = path.rfind('/');
  return std::string(
      slash == path.npos || path.size() == 1 ? path : path.substr(slash + 1));
}

std::string parent_path(std::string_view path) {
  path = without_slashes_at_end(path);
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) {
    return {};
  }
  return std::string(
      without_slashes_at_end(path.substr(0, slash == 0 ? 1 : slash)));
}

} // namespace argosy::fs
