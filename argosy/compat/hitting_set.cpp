#include "argosy/compat/hitting_set.h"

#include <algorithm>
#include <map>
#include <set>

namespace argosy::compat {

namespace {

using Lists = std::vector<std::vector<int>>;

// A list that contains another one is hit whenever that is.
Lists without_supersets(Lists lists) {
  for (auto& list : lists) {
    std::ranges::sort(list);
  }
  std::ranges::sort(lists, [](const auto& a, const auto& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  const auto same = std::ranges::unique(lists);
  lists.erase(same.begin(), same.end());
  Lists kept;
  for (const auto& list : lists) {
    if (std::ranges::none_of(kept, [&](const auto& smaller) {
          return std::ranges::includes(list, smaller);
        })) {
      kept.push_back(list);
    }
  }
  return kept;
}

// Branches on the numbers of a shortest list that is not hit, those that hit
// most lists first: the first descent is the greedy answer.
class HittingSearch {
 public:
  HittingSearch(Lists lists, int preferred)
      : lists_(std::move(lists)), preferred_(preferred) {}

  std::vector<int> run() {
    descend();
    return {best_.begin(), best_.end()};
  }

 private:
  static constexpr int kMostNodes = 20'000;

  // At most one of each of these disjoint lists is hit by one number.
  std::size_t least_more(const std::vector<const std::vector<int>*>& open) {
    std::set<int> seen;
    std::size_t count = 0;
    for (const auto* list : open) {
      if (std::ranges::none_of(
              *list, [&](int x) { return seen.contains(x); })) {
        seen.insert(list->begin(), list->end());
        ++count;
      }
    }
    return count;
  }

  std::vector<const std::vector<int>*> open_lists() const {
    std::vector<const std::vector<int>*> open;
    for (const auto& list : lists_) {
      if (std::ranges::none_of(
              list, [&](int x) { return chosen_.contains(x); })) {
        open.push_back(&list);
      }
    }
    return open;
  }

  std::vector<int> in_order(
      const std::vector<const std::vector<int>*>& open) const {
    std::map<int, int> hits;
    for (const auto* list : open) {
      for (const int x : *list) {
        ++hits[x];
      }
    }
    std::vector<int> numbers = *open.front();
    std::ranges::sort(numbers, {}, [&](int x) {
      return std::tuple(-hits[x], x < preferred_, x);
    });
    return numbers;
  }

  void descend() {
    const auto open = open_lists();
    if (open.empty()) {
      best_ = found_ && best_.size() <= chosen_.size() ? best_ : chosen_;
      found_ = true;
      return;
    }
    if (found_ &&
        (++nodes_ > kMostNodes ||
         chosen_.size() + least_more(open) >= best_.size())) {
      return;
    }
    for (const int x : in_order(open)) {
      chosen_.insert(x);
      descend();
      chosen_.erase(x);
    }
  }

  Lists lists_;
  int preferred_;
  std::set<int> chosen_;
  std::set<int> best_;
  bool found_ = false;
  int nodes_ = 0;
};

} // namespace

std::vector<int> hitting_set(Lists lists, int preferred) {
  return HittingSearch(without_supersets(std::move(lists)), preferred).run();
}

} // namespace argosy::compat
