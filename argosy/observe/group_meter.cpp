#include "argosy/observe/group_meter.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <utility>

#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/observe/world_observer.h"
#include "argosy/world/world.h"

namespace argosy::observe {

namespace {

// As doubles, which hold steps up to 2^53 exactly.
constexpr std::size_t kNumFields = 9;
using Packed = std::array<double, kNumFields>;

Packed pack(const RankStats& stats) {
  return {
      static_cast<double>(stats.step),
      static_cast<double>(stats.steps),
      stats.seconds,
      stats.waited,
      stats.samples,
      stats.loss_sum,
      stats.loss_weight,
      stats.period,
      stats.finished ? 1.0 : 0.0};
}

RankStats unpack(const Packed& fields) {
  return {
      .step = static_cast<std::int64_t>(fields[0]),
      .steps = static_cast<std::int64_t>(fields[1]),
      .seconds = fields[2],
      .waited = fields[3],
      .samples = fields[4],
      .loss_sum = fields[5],
      .loss_weight = fields[6],
      .period = fields[7],
      .finished = fields[8] != 0};
}

at::Tensor view_of(Packed* packed, std::size_t count) {
  return at::from_blob(
      packed->data(),
      {static_cast<std::int64_t>(count * kNumFields)},
      at::kDouble);
}

std::vector<RankStats> gather(const RankStats& own, const GroupPtr& group) {
  // One all-gather of 72 bytes per rank and report.
  Packed given = pack(own);
  std::vector<Packed> gathered(static_cast<std::size_t>(group->nranks()));
  all_gather(
      view_of(gathered.data(), gathered.size()), view_of(&given, 1), group);
  std::vector<RankStats> all;
  for (const Packed& packed : gathered) {
    all.push_back(unpack(packed));
  }
  return all;
}

} // namespace

GatherStats gather_stats_in(const GroupPtr& group) {
  return [members = group ? group : get_group(0)](const RankStats& own) {
    return gather(own, members);
  };
}

std::unique_ptr<StepMeter> make_step_meter(
    StepMeterOptions options, const GroupPtr& group, bool exchange) {
  const auto world = require_world("observe.step_meter");
  return std::make_unique<StepMeter>(
      *observer_of(*world),
      std::move(options),
      exchange ? gather_stats_in(group) : nullptr);
}

} // namespace argosy::observe
