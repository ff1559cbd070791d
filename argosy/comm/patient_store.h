#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace argosy::comm {

// Wraps a store so that its waits let other threads of this rank use it
// meanwhile: they poll, and throw a TimeoutError that names a missing key.
// c10d's stores block their only connection while they wait, so two threads
// that each connect to another peer could deadlock around a ring of ranks. As
// thread-safe as the store that it wraps.
c10::intrusive_ptr<c10d::Store> make_patient_store(
    c10::intrusive_ptr<c10d::Store> store);

} // namespace argosy::comm
