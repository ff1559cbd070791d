#include "argosy/fleet/strategy.h"

#include "argosy/common/error.h"
#include "argosy/common/file.h"

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
  strategy.merge_json(*text, path.string());
  return strategy;
}

void DistributedStrategy::save(const std::filesystem::path& path) const {
  write_file(path, to_json() + '\n');
}

} // namespace argosy::fleet
