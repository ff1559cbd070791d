#include "argosy/comm/flight_record.h"

#include "argosy/comm/flight/black_box.h"
#include "argosy/comm/flight/record_json.h"
#include "argosy/common/environment.h"
#include "argosy/common/flight_file.h"
#include "argosy/world/world.h"

namespace argosy::comm {

using flight::BlackBox;

std::shared_ptr<BlackBox> black_box_of(World& world) {
  return world.attached<BlackBox>([&] {
    const LaunchInfo& info = world.info();
    const Environment env = Environment::of_process();
    auto box = std::make_shared<BlackBox>(
        flight::Identity{
            .rank = world.rank(),
            .world_size = world.size(),
            .restart_count = info.restart_count,
            .run_id = info.run_id},
        flight::BlackBoxOptions{
            .folder = env.get("ARGOSY_FLIGHT_DIR", ""),
            .warning_after = hang_warning_after(env),
            .launcher_warns = env.get("ARGOSY_HANG_REPORT", "") == "launcher"});
    world.on_abort(
        [weak = std::weak_ptr<BlackBox>(box)](const std::string& reason) {
          if (const auto alive = weak.lock()) {
            alive->abort(reason);
          }
        });
    return box;
  });
}

std::string flight_record_json() {
  const auto world = require_world("comm.flight_record_json");
  return flight::to_json(black_box_of(*world)->record());
}

void dump_flight_record(const std::filesystem::path& path) {
  const auto world = require_world("comm.dump_flight_record");
  black_box_of(*world)->write(path);
}

} // namespace argosy::comm
