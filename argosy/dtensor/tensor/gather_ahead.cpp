#include "argosy/dtensor/tensor/gather_ahead.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "argosy/comm/coalesce.h"
#include "argosy/comm/group.h"
#include "argosy/comm/work.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/mesh/rank_mesh.h"

namespace argosy::dtensor {

namespace {

constexpr int kNone = -2;

const void* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

// Placements of the transpose of a matrix.
Placements transposed(Placements placements) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].is_shard()) {
      placements[axis] = Shard(1 - placements[axis].dim());
    }
  }
  return placements;
}

bool is_same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
      a.strides() == b.strides();
}

bool is_transpose(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() == 2 && b.dim() == 2 && is_same_view(a, b.t());
}

// Whether the ranks of the group stand on the axis in the group's order, so
// that what they send lies in the order of the dim.
bool is_in_order(const Group& group, const ProcessMesh& mesh, int axis) {
  return std::ranges::is_sorted(group.ranks(), {}, [&](int rank) {
    return mesh.get_rank_by_dim_and_process_id(axis, rank);
  });
}

} // namespace

GatherAhead::GatherAhead(const std::vector<Tensors>& buckets, int axis)
    : axis_(axis) {
  for (const Tensors& parameters : buckets) {
    Bucket bucket;
    for (const at::Tensor& parameter : parameters) {
      add(bucket, parameter);
    }
    if (!bucket.items.empty()) {
      buckets_.push_back(std::move(bucket));
    }
  }
}

// Waits for what is under way, as it writes to the memory that is freed here.
GatherAhead::~GatherAhead() {
  for (Bucket& bucket : buckets_) {
    for (const WorkPtr& work : bucket.works) {
      try {
        work->wait();
      } catch (const std::exception&) { // NOLINT: nobody needs the values
      }
    }
  }
}

void GatherAhead::add(Bucket& bucket, const at::Tensor& parameter) {
  const Parts& parts = require_parts(parameter, "gather_ahead");
  const Placement cut = parts.placements[static_cast<std::size_t>(axis_)];
  if (!parts.mesh->is_member() || !cut.is_shard()) {
    return;
  }
  if (group_ == nullptr) {
    group_ = parts.mesh->ranks().group_over({axis_});
  }
  const bool is_alone = std::ranges::count_if(parts.placements, [&](auto each) {
                          return each.is_shard(cut.dim());
                        }) == 1;
  if (!is_alone || !parts.local.is_contiguous() ||
      parameter.size(cut.dim()) % group_->nranks() != 0 ||
      !is_in_order(*group_, parts.mesh->mesh(), axis_)) {
    return;
  }
  Placements whole = parts.placements;
  whole[static_cast<std::size_t>(axis_)] = Replicate();
  places_[storage_of(parts.local)] = {buckets_.size(), bucket.items.size()};
  bucket.items.push_back(
      {.shard = parts.local,
       .from = parts.placements,
       .to = std::move(whole),
       .dim = cut.dim()});
}

std::optional<GatherAhead::Place> GatherAhead::place_of(
    const Parts& input, const Placements& to) const {
  if (!input.local.has_storage()) {
    return std::nullopt;
  }
  const auto found = places_.find(storage_of(input.local));
  if (found == places_.end()) {
    return std::nullopt;
  }
  const auto& [bucket, index] = found->second;
  const Item& item = buckets_[bucket].items[index];
  const bool is_it = is_same_view(input.local, item.shard) &&
      input.placements == item.from && to == item.to;
  const bool is_its_transpose = !is_it &&
      is_transpose(input.local, item.shard) &&
      input.placements == transposed(item.from) && to == transposed(item.to);
  return is_it || is_its_transpose ? std::optional(found->second)
                                   : std::nullopt;
}

at::Tensor GatherAhead::find(const Parts& input, const Placements& to) {
  const std::lock_guard lock(mutex_);
  const auto place = place_of(input, to);
  if (!place) {
    return {};
  }
  const at::NoGradGuard no_grad;
  Bucket& bucket = buckets_[place->first];
  if (is_stale(bucket)) {
    drop(bucket);
    current_ = -1;
  }
  enter(static_cast<int>(place->first));
  wait(bucket);
  bucket.is_used = true;
  Item& item = bucket.items[place->second];
  const at::Tensor whole = whole_of(item);
  return is_same_view(input.local, item.shard) ? whole : whole.t();
}

// Starts what is needed now before what is needed next.
void GatherAhead::enter(int bucket) {
  if (bucket != current_) {
    if (current_ >= 0) {
      next_[{before_, current_}] = bucket;
    }
    before_ = current_;
    current_ = bucket;
  }
  const auto known = next_.find({before_, current_});
  const int next = known == next_.end() ? kNone : known->second;
  drop_all_but(current_, next);
  start(current_);
  if (next != kNone) {
    start(next);
  }
}

void GatherAhead::start(int index) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(index)];
  if (bucket.is_gathered) {
    return;
  }
  const auto issue_all = [&] {
    for (Item& item : bucket.items) {
      item.version = item.shard._version();
      std::vector<std::int64_t> shape = item.shard.sizes().vec();
      shape.insert(shape.begin(), group_->nranks());
      item.parts = at::empty(shape, item.shard.options());
      all_gather(item.parts, item.shard, group_, false);
    }
  };
  bucket.works = coalesce(issue_all, group_, false);
  bucket.is_gathered = true;
  bucket.is_used = false;
}

void GatherAhead::wait(Bucket& bucket) {
  for (const WorkPtr& work : std::exchange(bucket.works, {})) {
    work->wait();
  }
}

void GatherAhead::drop(Bucket& bucket) {
  wait(bucket); // the memory is in use until then
  for (Item& item : bucket.items) {
    item.parts.reset();
    item.whole.reset();
  }
  bucket.is_gathered = false;
}

void GatherAhead::drop_all_but(int one, int other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (static_cast<int>(i) != one && static_cast<int>(i) != other &&
        buckets_[i].is_gathered) {
      drop(buckets_[i]);
    }
  }
}

void GatherAhead::release() {
  const std::lock_guard lock(mutex_);
  for (Bucket& bucket : buckets_) {
    if (bucket.is_gathered && !bucket.is_used) {
      // In vain, as it will be after the same two buckets.
      next_[{before_, current_}] = kNone;
    }
    if (bucket.is_gathered) {
      drop(bucket);
    }
  }
  before_ = -1;
  current_ = -1;
}

bool GatherAhead::is_stale(const Bucket& bucket) {
  return bucket.is_gathered &&
      std::ranges::any_of(bucket.items, [](const Item& item) {
           return item.version != item.shard._version();
         });
}

at::Tensor GatherAhead::whole_of(Item& item) const {
  if (!item.whole.defined()) {
    std::vector<std::int64_t> shape = item.shard.sizes().vec();
    shape[static_cast<std::size_t>(item.dim)] *= group_->nranks();
    // A view when the first dim is cut, else a copy.
    item.whole = item.parts.movedim(0, item.dim).reshape(shape);
    item.parts.reset();
  }
  return item.whole;
}

} // namespace argosy::dtensor
