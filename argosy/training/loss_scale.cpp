#include "argosy/training/loss_scale.h"

namespace argosy::training {

namespace {

thread_local double of_thread = 1;

} // namespace

LossScale::LossScale(double scale) : outer_(of_thread) {
  of_thread = scale;
}

LossScale::~LossScale() {
  of_thread = outer_;
}

double LossScale::current() {
  return of_thread;
}

} // namespace argosy::training
