#include "argosy/observe/tensor_memory.h"

#include <c10/core/Allocator.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "argosy/torch_hooks/allocator.h"
#include "argosy/world/world.h"

namespace argosy {

struct TensorMemory::Account {
  std::atomic<std::int64_t> current{0};
  std::atomic<std::int64_t> peak{0};

  void add(std::int64_t bytes) {
    const std::int64_t now = current.fetch_add(bytes) + bytes;
    // Raises the peak unless another thread has raised it further.
    std::int64_t most = peak.load();
    while (most < now && !peak.compare_exchange_weak(most, now)) {
    }
  }
};

namespace {

using Account = TensorMemory::Account;

std::shared_ptr<Account> calling_account() {
  static const auto of_no_world = std::make_shared<Account>();
  const std::shared_ptr<World> world = current_world();
  return world
      ? world->attached<Account>([] { return std::make_shared<Account>(); })
      : of_no_world;
}

// Which rank allocated which block. The address alone identifies the block, as
// the allocator's raw interface requires.
class Blocks {
 public:
  void add(void* data, std::int64_t bytes) {
    auto account = calling_account();
    account->add(bytes);
    const std::lock_guard lock(mutex_);
    blocks_[data] = {std::move(account), bytes};
  }

  void remove(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(data);
    if (found != blocks_.end()) {
      found->second.account->add(-found->second.bytes);
      blocks_.erase(found);
    }
  }

 private:
  // The account is shared: a tensor may outlive the world of its rank.
  struct Block {
    std::shared_ptr<Account> account;
    std::int64_t bytes = 0;
  };

  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_; // guarded by mutex_
};

// Never destroyed: static tensors are freed after all other static objects.
Blocks& blocks() {
  static auto* all = new Blocks;
  return *all;
}

std::atomic<c10::Allocator*> inner_allocator{nullptr};

void free_counted(void* data) {
  // Before freeing: another thread may get the same address at once.
  blocks().remove(data);
  inner_allocator.load()->raw_deallocate(data);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    c10::DataPtr block = inner_allocator.load()->allocate(bytes);
    // Without a context equal to the data, the block cannot be freed by
    // address.
    if (block.get() == nullptr || block.get() != block.get_context()) {
      return block;
    }
    // From here on free_counted() releases the block, not its own deleter.
    const c10::Device device = block.device();
    void* const data = block.release_context();
    blocks().add(data, static_cast<std::int64_t>(bytes));
    return {data, data, &free_counted, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }
};

void install_meter() {
  static CountingAllocator allocator;
  torch_hooks::install_tensor_meter(
      allocator, [](c10::Allocator* before) { inner_allocator = before; });
}

} // namespace

TensorMemory::TensorMemory() : account_((install_meter(), calling_account())) {}

std::int64_t TensorMemory::current() const {
  return account_->current;
}

std::int64_t TensorMemory::peak() const {
  return account_->peak;
}

void TensorMemory::reset_peak() {
  account_->peak = account_->current.load();
}

} // namespace argosy
