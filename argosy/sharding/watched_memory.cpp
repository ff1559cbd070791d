#include "argosy/sharding/watched_memory.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <map>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/training/intercept.h"

namespace argosy::sharding {

namespace {

struct Watched {
  std::weak_ptr<MemoryWatch> watch;
  std::size_t memory = 0;
};

void delete_watched(void* context) {
  delete static_cast<Watched*>(context);
}

Watched* watched_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage()
      ? tensor.storage().data_ptr().cast_context<Watched>(&delete_watched)
      : nullptr;
}

bool has_key(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has(kInterceptKey);
}

template <typename F>
void for_each_tensor(const c10::IValue& value, const F& f) {
  if (value.isTensor()) {
    f(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& each : value.toListRef()) {
      if (each.isTensor()) {
        f(each.toTensor());
      }
    }
  }
}

// Whether an op returns a view and does not read memory. Ops that may copy,
// such as reshape(), call other ops for that.
bool is_view(const c10::FunctionSchema& schema) {
  return !schema.returns().empty() &&
      schema.returns()[0].alias_info() != nullptr &&
      !schema.returns()[0].alias_info()->isWrite();
}

// The watched memories that an op uses, by watch, and those that it writes to.
class Uses {
 public:
  Uses(const c10::FunctionSchema& schema, const c10::IValue* arguments) {
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      const bool writes = alias != nullptr && alias->isWrite();
      for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
        if (has_key(tensor)) {
          add(*watched_of(tensor), writes, schema);
        }
      });
    }
  }

  void before() const {
    for (const auto& [watch, memories] : used_) {
      watch->before_use(memories);
    }
  }

  void after() const {
    for (const auto& [watch, memory] : written_) {
      watch->after_write(memory);
    }
  }

 private:
  using WatchPtr = std::shared_ptr<MemoryWatch>;

  void add(
      const Watched& watched, bool writes, const c10::FunctionSchema& schema) {
    const WatchPtr watch = watched.watch.lock();
    ARGOSY_CHECK(
        watch,
        "[sharding] ",
        schema.name(),
        " uses a parameter of a sharded model that has been destroyed: its "
        "values are spread over the ranks");
    auto& memories = used_[watch];
    if (std::find(memories.begin(), memories.end(), watched.memory) ==
        memories.end()) {
      memories.push_back(watched.memory);
    }
    if (writes) {
      written_.emplace_back(watch, watched.memory);
    }
  }

  std::map<WatchPtr, std::vector<std::size_t>> used_;
  std::vector<std::pair<WatchPtr, std::size_t>> written_;
};

// A copy of a tensor's metadata, with the key and in `storage`.
c10::intrusive_ptr<c10::TensorImpl> with_key(
    const at::Tensor& tensor, const c10::Storage& storage, std::int64_t begin) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(storage),
      tensor.key_set().add(kInterceptKey),
      tensor.dtype());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  impl->set_storage_offset(begin);
  return impl;
}

// Marks results that are views of watched memory: they must be watched too.
void mark_views(const c10::IValue* begin, const c10::IValue* end) {
  for (const c10::IValue* value = begin; value != end; ++value) {
    for_each_tensor(*value, [](const at::Tensor& tensor) {
      if (tensor.defined() && !has_key(tensor) &&
          watched_of(tensor) != nullptr) {
        tensor.unsafeGetTensorImpl()->shallow_copy_from(
            with_key(tensor, tensor.storage(), tensor.storage_offset()));
      }
    });
  }
}

} // namespace

void run_watched(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const Uses uses(
      schema, stack->data() + (stack->size() - schema.arguments().size()));
  if (!is_view(schema)) {
    uses.before();
  }
  op.redispatchBoxed(keys, stack);
  uses.after();
  const c10::IValue* const end = stack->data() + stack->size();
  mark_views(end - schema.returns().size(), end);
}

c10::Storage watched_storage(
    std::size_t bytes, std::weak_ptr<MemoryWatch> watch, std::size_t memory) {
  auto* context = new Watched{std::move(watch), memory};
  return c10::Storage(
      c10::Storage::use_byte_size_t{},
      bytes,
      c10::DataPtr(nullptr, context, &delete_watched, c10::kCPU),
      nullptr,
      false);
}

void set_memory(const c10::Storage& storage, void* data) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  void* context = impl->data_ptr().release_context();
  impl->set_data_ptr_noswap(
      c10::DataPtr(data, context, &delete_watched, c10::kCPU));
}

void move_into(
    const at::Tensor& tensor, const c10::Storage& storage, std::int64_t begin) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(
      with_key(tensor, storage, begin));
}

bool is_watched(const at::Tensor& tensor) {
  return watched_of(tensor) != nullptr;
}

} // namespace argosy::sharding
