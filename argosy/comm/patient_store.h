#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

namespace argosy::comm {

class MemberWatch;

// Wraps the store of a group that connects, so that its waits let other threads
// of this rank use it meanwhile: they poll, for no longer than the watch's
// deadline, and throw what the watch finds out. c10d's stores block their only
// connection while they wait, so two threads that each connect to another peer
// could deadlock around a ring of ranks. As thread-safe as the store that it
// wraps.
c10::intrusive_ptr<c10d::Store> make_patient_store(
    c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<MemberWatch> watch);

} // namespace argosy::comm
