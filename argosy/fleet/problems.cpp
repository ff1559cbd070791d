#include "argosy/fleet/problems.h"

#include "argosy/common/rank_label.h"
#include "argosy/common/text.h"

namespace argosy::fleet {

void Problems::add(const InvalidArgument& error) {
  std::string text = error.what();
  // raise() appends the rank again.
  const std::string rank = "; rank " + rank_label();
  if (text.ends_with(rank)) {
    text.erase(text.size() - rank.size());
  }
  all_.push_back(std::move(text));
}

void Problems::raise() const {
  if (all_.empty()) {
    return;
  }
  const std::string begin =
      "[fleet.strategy] " + (where_.empty() ? "" : where_ + ": ");
  if (all_.size() == 1) {
    throw InvalidArgument(begin + all_.front());
  }
  throw InvalidArgument(
      str(begin, all_.size(), " problems:\n  ", join(all_, "\n  ")));
}

} // namespace argosy::fleet
