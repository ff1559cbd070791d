#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace argosy::comm {

// Wraps a store so that waits let other threads of this rank use it: c10d's
// stores hold their one connection while they wait, so two connections that
// are made at once, each for another peer, would wait for each other around a
// ring. Waits ask again and again, and throw TimeoutError that names a missing
// key. Thread-safe as the store below it.
c10::intrusive_ptr<c10d::Store> make_patient_store(
    c10::intrusive_ptr<c10d::Store> store);

} // namespace argosy::comm
