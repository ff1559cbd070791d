#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "argosy/world/launch_info.h"

namespace argosy::store {
class Kv;
}

// Not installed.
namespace argosy {

class World;

// Makes the world of an epoch of an elastic job, and binds it to the calling
// thread in place of another one. Does not wait: the ranks have met already
// (elastic/meeting.h). Its keys in `kv` begin with `prefix`, which no other
// world has.
std::shared_ptr<World> make_epoch_world(
    LaunchInfo info,
    const std::shared_ptr<store::Kv>& kv,
    const std::string& prefix,
    std::chrono::milliseconds timeout);

} // namespace argosy
