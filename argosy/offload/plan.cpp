#include "argosy/offload/plan.h"

#include <algorithm>
#include <ostream>
#include <tuple>

#include "argosy/common/error.h"

namespace argosy::offload {

namespace {

// The uses of one buffer, in the order of the steps.
struct Uses {
  std::vector<std::size_t> steps;
  std::vector<bool> writes;
};

std::vector<Uses> uses_by_buffer(const OffloadSchedule& schedule) {
  std::vector<Uses> all(schedule.bytes.size());
  for (std::size_t step = 0; step < schedule.steps.size(); ++step) {
    for (const OffloadUse& use : schedule.steps[step]) {
      ARGOSY_CHECK(
          use.buffer < all.size(),
          "[offload.plan] step {} uses buffer {}, expected below {}",
          step,
          use.buffer,
          all.size());
      Uses& uses = all[use.buffer];
      ARGOSY_CHECK(
          uses.steps.empty() || uses.steps.back() != step,
          "[offload.plan] step {} uses buffer {} twice",
          step,
          use.buffer);
      uses.steps.push_back(step);
      uses.writes.push_back(use.writes);
    }
  }
  return all;
}

// The number of steps between two uses.
std::size_t length(const OffloadGap& gap, std::size_t num_steps) {
  return (gap.to + num_steps - gap.from - 1) % num_steps;
}

std::vector<OffloadGap> gaps_of(const std::vector<Uses>& all) {
  std::vector<OffloadGap> gaps;
  for (std::size_t buffer = 0; buffer < all.size(); ++buffer) {
    const auto& steps = all[buffer].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      gaps.push_back(
          {.buffer = buffer,
           .from = steps[i],
           .to = steps[(i + 1) % steps.size()]});
    }
  }
  return gaps;
}

// The bytes that stay in memory in each step.
class Room {
 public:
  Room(std::size_t num_steps, std::int64_t budget)
      : used_(num_steps, 0), budget_(budget) {}

  bool take(const OffloadGap& gap, std::int64_t bytes) {
    const std::size_t count = length(gap, used_.size());
    for (std::size_t i = 1; i <= count; ++i) {
      if (at(gap.from + i) + bytes > budget_) {
        return false;
      }
    }
    for (std::size_t i = 1; i <= count; ++i) {
      at(gap.from + i) += bytes;
    }
    return true;
  }

  std::int64_t most() const {
    return used_.empty() ? 0 : *std::ranges::max_element(used_);
  }

 private:
  std::int64_t& at(std::size_t step) { return used_[step % used_.size()]; }

  std::vector<std::int64_t> used_;
  const std::int64_t budget_;
};

// A gap is the time between two uses of a buffer. Staying in memory over a gap
// costs bytes * steps and saves a write and a read, so the cheapest gaps are
// taken first, as long as each step has room. A greedy choice: O(g log g) for g
// gaps plus their lengths, not always optimal.
std::int64_t choose(
    std::vector<OffloadGap>& gaps,
    const OffloadSchedule& schedule,
    std::int64_t budget) {
  const std::size_t num_steps = schedule.steps.size();
  std::vector<OffloadGap*> order;
  for (OffloadGap& gap : gaps) {
    order.push_back(&gap);
  }
  const auto weight = [&](const OffloadGap* gap) {
    return static_cast<std::int64_t>(length(*gap, num_steps)) *
        schedule.bytes[gap->buffer];
  };
  std::ranges::stable_sort(
      order, [&](auto* a, auto* b) { return weight(a) < weight(b); });
  Room room(num_steps, budget);
  for (OffloadGap* gap : order) {
    gap->stays = room.take(*gap, schedule.bytes[gap->buffer]);
  }
  return room.most();
}

// Whether the buffer has changed since it was last read when this gap begins.
// Goes back over the gaps in which it stayed in memory. `gaps` are those of one
// buffer.
bool has_changed(
    const OffloadGap* gaps, const std::vector<bool>& writes, std::size_t i) {
  for (std::size_t back = 0; back < writes.size(); ++back) {
    const std::size_t use = (i + writes.size() - back) % writes.size();
    if (writes[use]) {
      return true;
    }
    if (!gaps[(use + writes.size() - 1) % writes.size()].stays) {
      return false;
    }
  }
  return false;
}

void mark_written(std::vector<OffloadGap>& gaps, const std::vector<Uses>& all) {
  std::size_t first = 0;
  for (const Uses& uses : all) {
    for (std::size_t i = 0; i < uses.steps.size(); ++i) {
      OffloadGap& gap = gaps[first + i];
      gap.is_written = !gap.stays && has_changed(&gaps[first], uses.writes, i);
    }
    first += uses.steps.size();
  }
}

} // namespace

OffloadPlan plan_offload(const OffloadSchedule& schedule, std::int64_t budget) {
  const std::vector<Uses> all = uses_by_buffer(schedule);
  OffloadPlan plan{.gaps = gaps_of(all)};
  plan.memory = choose(plan.gaps, schedule, budget);
  mark_written(plan.gaps, all);
  std::ranges::stable_sort(plan.gaps, [](const auto& a, const auto& b) {
    return std::tie(a.from, a.buffer) < std::tie(b.from, b.buffer);
  });
  plan.arrivals.resize(schedule.steps.size());
  for (const OffloadGap& gap : plan.gaps) {
    if (!gap.stays) {
      plan.arrivals[gap.to].push_back(gap.buffer);
      plan.read += schedule.bytes[gap.buffer];
      plan.written += gap.is_written ? schedule.bytes[gap.buffer] : 0;
    }
  }
  return plan;
}

std::string to_string(const OffloadGap& gap) {
  return str(
      "buffer ",
      gap.buffer,
      ": ",
      gap.from,
      " to ",
      gap.to,
      gap.stays ? ", stays" : ", leaves",
      gap.is_written ? ", written" : "");
}

std::ostream& operator<<(std::ostream& out, const OffloadGap& gap) {
  return out << to_string(gap);
}

std::ostream& operator<<(std::ostream& out, const OffloadPlan& plan) {
  for (const OffloadGap& gap : plan.gaps) {
    out << gap << '\n';
  }
  return out << plan.memory << " bytes stay, " << plan.read << " are read, "
             << plan.written << " written";
}

} // namespace argosy::offload
