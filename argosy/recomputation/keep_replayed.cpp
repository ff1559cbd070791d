#include "argosy/recomputation/keep_replayed.h"

namespace argosy::recomputation {

namespace {

struct IsKept {
  bool value = false;
};

} // namespace

KeepReplayed::KeepReplayed() : kept_(of_thread<IsKept>().value, true) {}

bool KeepReplayed::is_inside() {
  return of_thread<IsKept>().value;
}

} // namespace argosy::recomputation
