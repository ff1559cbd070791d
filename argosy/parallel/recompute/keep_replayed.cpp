#include "argosy/parallel/recompute/keep_replayed.h"

namespace argosy::parallel {

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

} // namespace argosy::parallel
