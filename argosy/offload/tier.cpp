#include "argosy/offload/tier.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/offload/backing.h"

namespace argosy::offload {

namespace {

// Each buffer in turn, then a pause, in which training runs forward and
// backward.
std::vector<std::vector<OffloadUse>> in_order(std::size_t num_buffers) {
  std::vector<std::vector<OffloadUse>> steps;
  for (std::size_t i = 0; i < num_buffers; ++i) {
    steps.push_back({{i}});
  }
  steps.emplace_back();
  return steps;
}

bool uses(const std::vector<OffloadUse>& step, std::size_t slot) {
  return std::ranges::any_of(
      step, [slot](const OffloadUse& use) { return use.buffer == slot; });
}

} // namespace

struct OffloadTier::Impl {
  const OffloadOptions options;
  std::unique_ptr<Backing> backing;
  OffloadSchedule schedule;
  bool is_ordered = false; // set_schedule() was called
  std::optional<OffloadPlan> plan;
  std::size_t now = 0;               // step
  std::vector<std::size_t> used_now; // slots that the step has used
  // For each slot the step that uses it now.
  std::vector<std::optional<std::size_t>> in_use;

  Deadline deadline() const { return Deadline::after(options.timeout); }

  const OffloadPlan& planned() {
    if (!plan) {
      if (!is_ordered) {
        schedule.steps = in_order(schedule.bytes.size());
      }
      plan = plan_offload(schedule, options.offload_cpu_size);
    }
    return *plan;
  }

  void check(std::size_t slot, bool is_used) const {
    ARGOSY_CHECK(
        slot < in_use.size(),
        "[offload] slot {}, expected below {}",
        slot,
        in_use.size());
    ARGOSY_CHECK(
        in_use[slot].has_value() == is_used,
        "[offload] slot ",
        slot,
        is_used ? " was not fetched" : " is in use, expected put_back() first");
  }

  // Advances to the next step that uses a slot, which may be the current one.
  // The schedule is a cycle; callers may skip uses, but a slot that this step
  // has used already means that a later step has begun.
  void advance_to(std::size_t slot) {
    const std::size_t count = schedule.steps.size();
    const bool was_used = std::ranges::find(used_now, slot) != used_now.end();
    for (std::size_t i = was_used ? 1 : 0; i <= count; ++i) {
      if (uses(schedule.steps[(now + i) % count], slot)) {
        if (i > 0) {
          now = (now + i) % count;
          used_now.clear();
        }
        break;
      }
    }
    used_now.push_back(slot);
  }

  void read_ahead() {
    const std::size_t count = schedule.steps.size();
    const auto ahead =
        std::min(static_cast<std::size_t>(options.ahead), count - 1);
    for (std::size_t i = 0; i <= ahead; ++i) {
      for (const std::size_t buffer : plan->arrivals[(now + i) % count]) {
        backing->prefetch(buffer);
      }
    }
  }

  // Uses that are not in the plan do not stay.
  bool stays(std::size_t slot, std::size_t step) {
    const auto& gaps = planned().gaps;
    const auto found = std::ranges::find_if(gaps, [&](auto& gap) {
      return gap.buffer == slot && gap.from == step;
    });
    return found != gaps.end() && found->stays;
  }
};

OffloadTier::OffloadTier(OffloadOptions options)
    : impl_(new Impl{.options = options}) {
  ARGOSY_CHECK(
      options.offload_cpu_size >= 0 && options.ahead >= 0,
      "[offload] offload_cpu_size {} and ahead {}, expected >= 0",
      options.offload_cpu_size,
      options.ahead);
  impl_->backing = options.io == OffloadIo::Mapped ? make_mapped(options)
                                                   : make_streamed(options);
}

OffloadTier::~OffloadTier() = default;
OffloadTier::OffloadTier(OffloadTier&&) noexcept = default;

std::size_t OffloadTier::add(std::int64_t bytes) {
  ARGOSY_CHECK(bytes > 0, "[offload.add] {} bytes, expected > 0", bytes);
  impl_->schedule.bytes.push_back(bytes);
  impl_->in_use.emplace_back();
  impl_->plan.reset();
  return impl_->backing->add(bytes);
}

void OffloadTier::set_schedule(std::vector<std::vector<OffloadUse>> steps) {
  ARGOSY_CHECK(!steps.empty(), "[offload.set_schedule] no steps");
  OffloadSchedule schedule{impl_->schedule.bytes, std::move(steps)};
  impl_->plan = plan_offload(schedule, impl_->options.offload_cpu_size);
  impl_->schedule = std::move(schedule);
  impl_->is_ordered = true;
  impl_->now = 0;
  impl_->used_now.clear();
}

void OffloadTier::prefetch(std::size_t slot) {
  impl_->check(slot, false);
  impl_->backing->prefetch(slot);
}

at::Tensor OffloadTier::fetch(std::size_t slot) {
  impl_->check(slot, false);
  impl_->planned();
  impl_->advance_to(slot);
  impl_->backing->prefetch(slot);
  impl_->read_ahead();
  at::Tensor memory = impl_->backing->get(slot, impl_->deadline());
  // Last: if get() throws, the slot is not in use and can be fetched again.
  impl_->in_use[slot] = impl_->now;
  return memory;
}

void OffloadTier::put_back(std::size_t slot, bool written) {
  impl_->check(slot, true);
  const std::size_t step = *std::exchange(impl_->in_use[slot], std::nullopt);
  if (written) {
    impl_->backing->touch(slot);
  }
  if (!impl_->stays(slot, step)) {
    impl_->backing->release(slot, impl_->deadline());
  }
}

const OffloadPlan& OffloadTier::plan() {
  return impl_->planned();
}

OffloadStats OffloadTier::stats() const {
  return impl_->backing->stats();
}

} // namespace argosy::offload
