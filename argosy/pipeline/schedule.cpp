#include "argosy/pipeline/schedule.h"

namespace argosy::pipeline {
namespace {

bool turned(PartOrder order, int chunk) {
  return order == PartOrder::kV && chunk % 2 == 1;
}

} // namespace

int Schedule::stage_of(int part) const {
  const int place = part % stages;
  return turned(order, chunk_of(part)) ? stages - 1 - place : place;
}

int Schedule::part_of(int stage, int chunk) const {
  const int place = turned(order, chunk) ? stages - 1 - stage : stage;
  return chunk * stages + place;
}

} // namespace argosy::pipeline
