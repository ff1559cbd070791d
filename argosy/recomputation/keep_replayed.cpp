#include "argosy/recomputation/keep_replayed.h"

namespace argosy::recomputation {

namespace {

thread_local bool is_kept = false;

} // namespace

KeepReplayed::KeepReplayed() : outer_(is_kept) {
  is_kept = true;
}

KeepReplayed::~KeepReplayed() {
  is_kept = outer_;
}

bool KeepReplayed::is_inside() {
  return is_kept;
}

} // namespace argosy::recomputation
