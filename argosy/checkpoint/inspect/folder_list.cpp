#include "argosy/checkpoint/inspect/folder_list.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <utility>

#include "argosy/checkpoint/folder.h"
#include "argosy/checkpoint/import/byte_source.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/manifest.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/fs/transfer.h"

namespace argosy::checkpoint {

namespace {

constexpr std::uint64_t kMostManifestBytes = std::uint64_t{4} << 30;

Deadline list_deadline() {
  return Deadline::after(std::chrono::minutes(2));
}

std::string missing_file(
    const Manifest& manifest,
    const std::map<std::string, std::uint64_t>& sizes) {
  for (const FileRecord& file : manifest.files) {
    const auto found = sizes.find(file.path);
    if (found == sizes.end()) {
      return str(file.path, " is missing");
    }
    if (found->second != file.bytes) {
      return str(
          file.path, " has ", found->second, " bytes, expected ", file.bytes);
    }
  }
  return "";
}

CheckpointEntry entry_of(const fs::Location& folder, const std::string& name) {
  CheckpointEntry entry{.name = name};
  entry.step = step_of(name).value_or(0);
  std::map<std::string, std::uint64_t> sizes;
  for (const fs::Entry& file : folder.fs->list(folder.path, list_deadline())) {
    sizes[file.name] = file.bytes;
    entry.bytes += file.bytes;
  }
  if (sizes.count(kManifestName) == 0) {
    return entry;
  }
  entry.committed = true;
  try {
    const Source text = open_source(below(folder, kManifestName));
    const Manifest manifest =
        parse_manifest(text->read_all(kMostManifestBytes), text->name());
    entry.step = manifest.step;
    entry.created = manifest.created;
    entry.root = manifest.root;
    entry.values = manifest.values;
    entry.problem = missing_file(manifest, sizes);
  } catch (const CheckpointError& error) {
    entry.problem = error.what();
  }
  return entry;
}

std::string read_latest(const fs::Location& folder) {
  const fs::Location file = below(folder, kLatestName);
  return exists(file) ? std::string(trim(fs::read_text(file, list_deadline())))
                      : "";
}

} // namespace

std::vector<CheckpointEntry> list_checkpoints(const fs::Location& folder) {
  if (exists(below(folder, kManifestName))) {
    return {entry_of(folder, fs::base_name(folder.path))};
  }
  const std::string named = read_latest(folder);
  const auto newest = Folder(folder).newest(list_deadline());
  std::vector<CheckpointEntry> entries;
  for (const fs::Entry& child : folder.fs->list(folder.path, list_deadline())) {
    const fs::Location path = below(folder, child.name);
    if (child.is_dir &&
        (step_of(child.name) || exists(below(path, kManifestName)))) {
      entries.push_back(entry_of(path, child.name));
      entries.back().named = child.name == named;
      entries.back().latest = newest && child.name == newest->name;
    }
  }
  std::sort(
      entries.begin(),
      entries.end(),
      [](const CheckpointEntry& a, const CheckpointEntry& b) {
        return std::tie(a.step, a.name) < std::tie(b.step, b.name);
      });
  return entries;
}

} // namespace argosy::checkpoint
