#include "argosy/sequence_parallel/ring_travel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace argosy::sequence_parallel {

namespace {

KeysAndValues zeros_like(const KeysAndValues& like, at::ScalarType dtype) {
  const auto options = like.keys.options().dtype(dtype);
  return {
      at::zeros(like.keys.sizes(), options),
      at::zeros(like.values.sizes(), options)};
}

void set_zero(const KeysAndValues& block) {
  block.keys.zero_();
  block.values.zero_();
}

void add(const KeysAndValues& to, const KeysAndValues& what) {
  to.keys.add_(what.keys);
  to.values.add_(what.values);
}

} // namespace

void wait_for(Works& works) {
  for (const WorkPtr& work : std::exchange(works, {})) {
    work->wait();
  }
}

Ring::Ring(GroupPtr group, SequenceSplit split, bool causal)
    : group_(std::move(group)),
      rank_(group_ ? group_->rank() : 0),
      split_(std::move(split)),
      plan_(plan_ring(split_, causal)) {}

void Ring::send(const KeysAndValues& block, int to, Works& works) const {
  const int peer = group_->ranks()[static_cast<std::size_t>(to)];
  works.push_back(isend(block.keys, peer, group_));
  works.push_back(isend(block.values, peer, group_));
}

void Ring::receive(const KeysAndValues& block, int from, Works& works) const {
  const int peer = group_->ranks()[static_cast<std::size_t>(from)];
  works.push_back(irecv(block.keys, peer, group_));
  works.push_back(irecv(block.values, peer, group_));
}

Places::Places(
    const Ring& ring, const KeysAndValues& like, at::ScalarType dtype)
    : like_(like), dtype_(dtype) {
  for (int rank = 0; rank < ring.nranks(); ++rank) {
    longest_ = std::max(longest_, ring.split().length(rank));
  }
}

at::Tensor Places::part_of(
    at::Tensor& flat, const at::Tensor& like, std::int64_t length) {
  const std::int64_t width = like.size(0) * like.size(1) * like.size(3);
  if (!flat.defined()) {
    flat = at::empty({longest_ * width}, like.options().dtype(dtype_));
  }
  return flat.narrow(0, 0, length * width)
      .view({like.size(0), like.size(1), length, like.size(3)});
}

KeysAndValues Places::at(std::size_t place, std::int64_t length) {
  KeysAndValues& flats = flats_.at(place);
  return {
      part_of(flats.keys, like_.keys, length),
      part_of(flats.values, like_.values, length)};
}

KeyTravel::KeyTravel(const Ring& ring, KeysAndValues own)
    : ring_(ring),
      here_(std::move(own)),
      places_(ring, here_, here_.keys.scalar_type()) {}

void KeyTravel::begin_next(int step) {
  const RingPlan& plan = ring_.plan();
  if (plan.comes(ring_.rank(), step + 1)) {
    const int owner = plan.owner(ring_.rank(), step + 1);
    // Two buffers suffice: here_ is in the other one, and end_next() waits for
    // its send before it is received into again.
    coming_ = places_.at(step % 2, ring_.split().length(owner));
    ring_.receive(coming_, ring_.previous(), under_way_);
  }
  if (plan.comes(ring_.next(), step + 1)) {
    ring_.send(here_, ring_.next(), under_way_);
  }
}

void KeyTravel::end_next() {
  wait_for(under_way_);
  here_ = std::exchange(coming_, {});
}

GradientTravel::GradientTravel(
    const Ring& ring, const KeysAndValues& own, at::ScalarType dtype)
    : ring_(ring), places_(ring, own, dtype), own_(zeros_like(own, dtype)) {
  // The gradients come home from the last rank that needs the keys. Unless that
  // is the previous rank in the ring, whose messages are in order, they may
  // come at any time, so the receive is posted at the start.
  const int last = ring.plan().last_step[ring.rank()];
  if (last > 0 && last < ring.nranks() - 1) {
    expect_home(zeros_like(own_, dtype));
  }
}

void GradientTravel::expect_home(KeysAndValues home) {
  home_ = std::move(home);
  const int last = ring_.plan().last_step[ring_.rank()];
  ring_.receive(home_, ring_.plan().holder(ring_.rank(), last), coming_home_);
}

bool GradientTravel::is_sent_home(int step) const {
  return !ring_.plan().comes(ring_.next(), step + 1);
}

void GradientTravel::begin(int step) {
  travelling_ = {};
  if (step == 0) {
    place_ = own_;
    return;
  }
  place_ = {};
  if (!ring_.plan().comes(ring_.rank(), step)) {
    return;
  }
  const int owner = ring_.plan().owner(ring_.rank(), step);
  const std::int64_t length = ring_.split().length(owner);
  // The send of two steps ago has used this buffer.
  wait_for(outgoing_[step % 2]);
  travelling_ = places_.at(step % 2, length);
  if (step > 1) {
    ring_.receive(travelling_, ring_.previous(), incoming_);
  }
  // From step 2 on the buffer is being received into while this rank computes,
  // so its own share needs a third one; end() adds the two.
  place_ = step > 1 ? places_.at(kAdding, length) : travelling_;
  set_zero(place_);
}

// Adds in the order in which the ranks of the ring follow each other, so that
// the sums repeat bit for bit.
void GradientTravel::end(int step) {
  if (!travelling_.keys.defined()) {
    return;
  }
  if (step > 1) {
    wait_for(incoming_);
    add(travelling_, place_);
  }
  const int to = is_sent_home(step) ? ring_.plan().owner(ring_.rank(), step)
                                    : ring_.next();
  ring_.send(travelling_, to, outgoing_[step % 2]);
}

KeysAndValues GradientTravel::finish() {
  if (ring_.plan().last_step[ring_.rank()] > 0) {
    // The last holder is the previous rank: its message for home comes after
    // all others from it, so it is received last.
    if (!home_.keys.defined()) {
      expect_home(places_.at(kAdding, ring_.split().length(ring_.rank())));
    }
    wait_for(coming_home_);
    add(own_, home_);
  }
  for (Works& works : outgoing_) {
    wait_for(works);
  }
  return own_;
}

} // namespace argosy::sequence_parallel
