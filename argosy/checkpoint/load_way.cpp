#include "argosy/checkpoint/load_way.h"

#include <algorithm>
#include <ostream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::checkpoint {

namespace {

// The number after a key of /proc/meminfo, in bytes; 0 if it is not there.
std::uint64_t meminfo(const std::string& key) {
  const std::string text = read_file("/proc/meminfo").value_or("");
  const std::size_t at = text.find(key);
  if (at == text.npos) {
    return 0;
  }
  const std::size_t begin = at + key.size();
  const std::size_t end = text.find("kB", begin);
  const auto kilobytes =
      parse_int(trim(std::string_view(text).substr(begin, end - begin)));
  return static_cast<std::uint64_t>(kilobytes.value_or(0)) << 10;
}

// By bytes, of a few files.
double cached_share(
    const Folder& folder,
    const std::string& name,
    const Manifest& manifest,
    Deadline deadline) {
  constexpr std::size_t kFiles = 8;
  const std::size_t step = (manifest.files.size() + kFiles - 1) / kFiles;
  double cached = 0;
  double all = 0;
  for (std::size_t i = 0; i < manifest.files.size(); i += step) {
    const std::string path =
        fs::join_path(folder.path_of(name), manifest.files[i].path);
    const auto file = folder.fs().open_read(path, {}, deadline);
    const auto bytes = static_cast<double>(file->size());
    cached += bytes * file->cached_share();
    all += bytes;
  }
  return all > 0 ? cached / all : 1;
}

} // namespace

std::string to_text(const LoadWay& way) {
  return str(static_cast<int>(way.order), way.ahead ? '+' : '-');
}

LoadWay parse_load_way(const std::string& text) {
  ARGOSY_ASSERT(text.size() == 2);
  return {static_cast<Order>(text[0] - '0'), text[1] == '+'};
}

std::ostream& operator<<(std::ostream& out, const LoadWay& way) {
  constexpr const char* kNames[] = {
      "verify, then read", "read with undo", "read in place"};
  return out << kNames[static_cast<int>(way.order)]
             << (way.ahead ? ", ahead" : "");
}

LoadWay choose_way(bool verify_first, const LoadPlace& place) {
  constexpr double kMostlyCached = 0.5;
  constexpr std::uint64_t kSmall = std::uint64_t{8} << 20;
  const bool on_disk = place.is_local && place.bytes > kSmall &&
      place.cached_share < kMostlyCached;
  if (!verify_first) {
    return {Order::ReadInPlace, on_disk};
  }
  if (!place.is_local) {
    return {Order::ReadWithUndo, false};
  }
  // Half of the memory: others need some too, and copies may be on the way to
  // be made.
  return on_disk && place.copy_bytes <= place.free_memory / 2
      ? LoadWay{Order::ReadWithUndo, true}
      : LoadWay{Order::VerifyThenRead, false};
}

LoadPlace look_at(
    const Folder& folder,
    const std::string& name,
    const Manifest& manifest,
    int num_ranks,
    Deadline deadline) {
  LoadPlace place;
  place.is_local = folder.fs().is_local();
  place.bytes = manifest.tensor_bytes();
  place.copy_bytes = place.bytes * static_cast<std::uint64_t>(num_ranks);
  if (place.is_local) {
    place.cached_share = cached_share(folder, name, manifest, deadline);
    place.free_memory = meminfo("MemAvailable:");
  }
  return place;
}

} // namespace argosy::checkpoint
