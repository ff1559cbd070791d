#include "argosy/comm/flight/world_flight.h"

#include <algorithm>

#include "argosy/comm/flight/flight_record.h"
#include "argosy/comm/flight/record_json.h"
#include "argosy/comm/op.h"
#include "argosy/comm/tensors.h"
#include "argosy/common/environment.h"
#include "argosy/world/world.h"

namespace argosy::comm {

namespace flight {

namespace {

void add(Side& side, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) {
    return;
  }
  if (side.num_tensors == 0) {
    const at::IntArrayRef dims = tensors.front().sizes();
    side.num_dims = static_cast<std::uint32_t>(dims.size());
    std::copy_n(
        dims.begin(),
        std::min(dims.size(), Side::kMostDims),
        side.dims.begin());
  }
  side.num_tensors += static_cast<std::uint32_t>(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    side.elements += tensor.numel();
  }
}

} // namespace

std::shared_ptr<BlackBox> black_box_of(World& world) {
  return world.attached<BlackBox>([&] {
    const LaunchInfo& info = world.info();
    auto box = std::make_shared<BlackBox>(
        Identity{
            .rank = world.rank(),
            .world_size = world.size(),
            .restart_count = info.restart_count,
            .run_id = info.run_id},
        Environment::of_process().get("ARGOSY_FLIGHT_DIR", ""));
    world.on_abort(
        [weak = std::weak_ptr<BlackBox>(box)](const std::string& reason) {
          if (const auto alive = weak.lock()) {
            alive->abort(reason);
          }
        });
    return box;
  });
}

Call call_of(const std::vector<Op>& ops, const std::vector<int>& ranks) {
  const Op& first = ops.front();
  Call call{.kind = first.kind, .reduce = first.reduce};
  for (const Op& op : ops) {
    add(call.in, op.in);
    add(call.out, op.out);
    call.bytes += static_cast<std::int64_t>(bytes_of(op));
  }
  if (first.root >= 0) {
    call.root = ranks[static_cast<std::size_t>(first.root)];
  }
  const auto& tensors = first.in.empty() ? first.out : first.in;
  if (!tensors.empty()) {
    call.dtype = dtype_of(tensors.front());
  }
  return call;
}

} // namespace flight

std::string flight_record_json() {
  const auto world = require_world("comm.flight_record_json");
  return flight::to_json(flight::black_box_of(*world)->record());
}

void dump_flight_record(const std::filesystem::path& path) {
  const auto world = require_world("comm.dump_flight_record");
  flight::black_box_of(*world)->write(path);
}

} // namespace argosy::comm
