#include "argosy/fleet/strategy.h"

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/fleet/prototxt.h"

namespace argosy::fleet {

// Out of line, to keep their code out of every file that uses a strategy.
DistributedStrategy::DistributedStrategy() = default;
DistributedStrategy::DistributedStrategy(const DistributedStrategy&) = default;
DistributedStrategy& DistributedStrategy::operator=(
    const DistributedStrategy&) = default;
DistributedStrategy::~DistributedStrategy() = default;

DistributedStrategy DistributedStrategy::from_json(std::string_view text) {
  DistributedStrategy strategy;
  strategy.merge_json(text);
  return strategy;
}

DistributedStrategy DistributedStrategy::load(
    const std::filesystem::path& path) {
  const auto text = read_file(path);
  ARGOSY_CHECK(
      text, "[fleet.strategy] {}: there is no such file", path.string());
  DistributedStrategy strategy;
  strategy.source_ = path.string();
  // A prototxt has fields at its top level, no braces around them.
  const std::string_view begin = trim(*text);
  const bool is_json = begin.empty() || begin[0] == '{' || begin[0] == '[';
  const auto is_list = [&](const std::string& name) {
    const AnySetting* setting = strategy.find(name);
    return setting != nullptr && setting->is_list();
  };
  strategy.merge_json(
      is_json ? *text : prototxt_to_json(*text, path.string(), is_list),
      path.string());
  return strategy;
}

void DistributedStrategy::save(const std::filesystem::path& path) const {
  write_file(path, to_json() + '\n');
}

} // namespace argosy::fleet
