#include "argosy/recomputation/kept_input.h"

#include <ATen/ops/empty.h>

#include <span>
#include <utility>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/torch_hooks/saved_tensors.h"

namespace argosy::recomputation {

namespace {

at::Tensor as_leaf(const at::Tensor& tensor, bool requires_grad) {
  return tensor.detach().set_requires_grad(requires_grad);
}

// Keeps an input as autograd saves tensors: autograd notices if it is
// overwritten, and an outer recompute() can replay it. Drops the history, which
// the graph keeps where it is needed.
class SavedInput final : public KeptInput {
 public:
  explicit SavedInput(const at::Tensor& tensor)
      : saved_(tensor.defined() ? tensor.detach() : tensor),
        is_defined_(tensor.defined()),
        requires_grad_(is_defined_ && tensor.requires_grad()) {}

  at::Tensor get() const override {
    return is_defined_ ? as_leaf(saved_.unpack(), requires_grad_)
                       : at::Tensor();
  }

 private:
  torch_hooks::SavedTensor saved_;
  const bool is_defined_;
  const bool requires_grad_;
};

// The elements of a tensor without gaps in the order of its memory, and what is
// needed to restore the tensor.
class Flat {
 public:
  explicit Flat(const at::Tensor& tensor)
      : dense_(
            tensor.is_non_overlapping_and_dense() ? tensor
                                                  : tensor.contiguous()) {
    sizes_ = dense_.sizes().vec();
    strides_ = dense_.strides().vec();
  }

  // Call it once: releases the elements.
  at::Tensor take() {
    const at::Tensor dense = std::exchange(dense_, {}).detach();
    return dense.as_strided({dense.numel()}, {1}, dense.storage_offset());
  }
  at::Tensor whole(const at::Tensor& flat) const {
    return flat.as_strided(sizes_, strides_, flat.storage_offset());
  }

 private:
  at::Tensor dense_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> strides_;
};

template <typename Byte>
std::span<Byte> bytes_of(const at::Tensor& flat) {
  return {static_cast<Byte*>(flat.data_ptr()), flat.nbytes()};
}

// A one-dimensional tensor in a store.
class StoredFlat {
 public:
  StoredFlat(const at::Tensor& flat, std::shared_ptr<ActivationStore> store)
      : store_(std::move(store)),
        ticket_(store_->put(bytes_of<const std::byte>(flat))),
        count_(flat.numel()),
        options_(flat.options()) {}
  ~StoredFlat() { store_->drop(ticket_); }
  StoredFlat(const StoredFlat&) = delete;
  StoredFlat& operator=(const StoredFlat&) = delete;

  at::Tensor get() const {
    at::Tensor flat = at::empty({count_}, options_);
    store_->get(ticket_, bytes_of<std::byte>(flat));
    return flat;
  }

 private:
  const std::shared_ptr<ActivationStore> store_;
  const ActivationStore::Ticket ticket_;
  const std::int64_t count_;
  const at::TensorOptions options_;
};

// A one-dimensional tensor in a store, or in memory if there is no store.
class KeptFlat {
 public:
  KeptFlat(at::Tensor flat, const std::shared_ptr<ActivationStore>& store) {
    if (store) {
      stored_ = std::make_unique<StoredFlat>(flat, store);
    } else {
      flat_ = std::move(flat);
    }
  }
  at::Tensor get() const { return stored_ ? stored_->get() : flat_; }

 private:
  at::Tensor flat_;
  std::unique_ptr<StoredFlat> stored_;
};

class StoredInput final : public KeptInput {
 public:
  StoredInput(const at::Tensor& tensor, std::shared_ptr<ActivationStore> store)
      : requires_grad_(tensor.requires_grad()),
        flat_(tensor),
        stored_(flat_.take(), std::move(store)) {}

  at::Tensor get() const override {
    return as_leaf(flat_.whole(stored_.get()), requires_grad_);
  }

 private:
  const bool requires_grad_;
  Flat flat_;
  const StoredFlat stored_;
};

// Keeps the local part of a DTensor in the store.
class StoredDTensor final : public KeptInput {
 public:
  StoredDTensor(
      const at::Tensor& tensor, std::shared_ptr<ActivationStore> store)
      : requires_grad_(tensor.requires_grad()),
        parts_(*dtensor::parts_of(tensor)),
        sizes_(tensor.sizes().vec()),
        strides_(tensor.strides().vec()),
        local_(std::exchange(parts_.local, {}), std::move(store)) {}

  at::Tensor get() const override {
    dtensor::Parts parts = parts_;
    parts.local = local_.get();
    return as_leaf(
        dtensor::make_dtensor(std::move(parts), sizes_, strides_),
        requires_grad_);
  }

 private:
  const bool requires_grad_;
  dtensor::Parts parts_;
  const std::vector<std::int64_t> sizes_;
  const std::vector<std::int64_t> strides_;
  const StoredInput local_;
};

// Keeps this rank's slice of the elements. The last ranks may have fewer, or
// none.
class PartitionedInput final : public KeptInput {
 public:
  PartitionedInput(const at::Tensor& tensor, const RecomputeOptions& options)
      : requires_grad_(tensor.requires_grad()),
        count_(tensor.numel()),
        group_(options.partition),
        flat_(tensor),
        part_(own_part(flat_.take()), options.store) {}

  at::Tensor get() const override {
    const at::Tensor part = part_.get();
    const at::Tensor all =
        at::empty({part.numel() * group_->nranks()}, part.options());
    all_gather(all, part, group_);
    return as_leaf(flat_.whole(all.narrow(0, 0, count_)), requires_grad_);
  }

 private:
  // Slices have the same length on all ranks, as all_gather needs. A copy, so
  // that the whole can be released.
  at::Tensor own_part(const at::Tensor& flat) const {
    const std::int64_t size =
        (count_ + group_->nranks() - 1) / group_->nranks();
    const std::int64_t begin = std::min(size * group_->rank(), count_);
    const std::int64_t length = std::min(size, count_ - begin);
    const at::Tensor part = at::empty({size}, flat.options());
    part.narrow(0, 0, length).copy_(flat.narrow(0, begin, length));
    part.narrow(0, length, size - length).zero_();
    return part;
  }

  const bool requires_grad_;
  const std::int64_t count_;
  const std::shared_ptr<Group> group_;
  Flat flat_;
  const KeptFlat part_;
};

// A leaf with a gradient is a parameter, which exists anyway: a copy in a store
// would save nothing.
bool stays_in_memory(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.numel() == 0 ||
      (tensor.is_leaf() && tensor.requires_grad());
}

} // namespace

std::unique_ptr<KeptInput> keep_input(
    const at::Tensor& tensor, const RecomputeOptions& options) {
  // Inside of another recompute() the outer one drops the input and brings it
  // back; it only sees tensors that autograd saves.
  if (stays_in_memory(tensor) || torch_hooks::SavedTensorScope::is_inside()) {
    return std::make_unique<SavedInput>(tensor);
  }
  const bool is_spread = dtensor::parts_of(tensor) != nullptr;
  if (options.partition && !is_spread) {
    return std::make_unique<PartitionedInput>(tensor, options);
  }
  if (!options.store) {
    return std::make_unique<SavedInput>(tensor);
  }
  if (is_spread) {
    return std::make_unique<StoredDTensor>(tensor, options.store);
  }
  return std::make_unique<StoredInput>(tensor, options.store);
}

} // namespace argosy::recomputation
