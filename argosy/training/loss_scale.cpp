#include "argosy/training/loss_scale.h"

namespace argosy::training {

namespace {

struct CurrentScale {
  double value = 1;
};

} // namespace

LossScale::LossScale(double scale)
    : scale_(of_thread<CurrentScale>().value, scale) {}

double LossScale::current() {
  return of_thread<CurrentScale>().value;
}

} // namespace argosy::training
