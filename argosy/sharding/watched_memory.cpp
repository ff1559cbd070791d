#include "argosy/sharding/watched_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/save_check.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::sharding {

namespace {

using torch_hooks::CaughtOp;

constexpr auto kHook = torch_hooks::OpHook::kIntercept;

struct Watched {
  std::weak_ptr<MemoryWatch> watch;
  std::size_t memory = 0;
};

Watched* watched_of(const at::Tensor& tensor) {
  return torch_hooks::find_owned<Watched>(tensor);
}

bool has_key(const at::Tensor& tensor) {
  return torch_hooks::is_marked(tensor, kHook);
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

std::shared_ptr<MemoryWatch> watch_of(
    const Watched& watched, const std::string& user) {
  std::shared_ptr<MemoryWatch> watch = watched.watch.lock();
  ARGOSY_CHECK(
      watch,
      "[sharding] {} uses a parameter of a sharded model that has been "
      "destroyed: its values are spread over the ranks",
      user);
  return watch;
}

// The watched memories that an op uses, by watch, and those that it writes to.
class Uses {
 public:
  Uses(const c10::FunctionSchema& schema, const c10::IValue* arguments) {
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      const bool writes = alias != nullptr && alias->isWrite();
      for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
        const Watched* watched = has_key(tensor) ? watched_of(tensor) : nullptr;
        if (watched != nullptr) {
          add(*watched, writes, schema);
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
    const WatchPtr watch = watch_of(watched, schema.name());
    auto& memories = used_[watch];
    if (std::ranges::find(memories, watched.memory) == memories.end()) {
      memories.push_back(watched.memory);
    }
    if (writes) {
      written_.emplace_back(watch, watched.memory);
    }
  }

  std::map<WatchPtr, std::vector<std::size_t>> used_;
  std::vector<std::pair<WatchPtr, std::size_t>> written_;
};

// Marks results that are views of watched memory. They share the storage, but
// the dispatcher only intercepts tensors that carry the mark itself.
void mark_views(const c10::IValue* begin, const c10::IValue* end) {
  for (const c10::IValue* value = begin; value != end; ++value) {
    for_each_tensor(*value, [](const at::Tensor& tensor) {
      if (tensor.defined() && !has_key(tensor) &&
          watched_of(tensor) != nullptr) {
        torch_hooks::move_marked(
            tensor, kHook, tensor.storage(), tensor.storage_offset());
      }
    });
  }
}

// torch::load() puts what it has read in the place of a tensor's memory.
// Watched memory stays, and takes the values.
bool run_set(CaughtOp& caught) {
  const at::Tensor self = caught.arguments()[0].toTensor();
  const Watched* watched = has_key(self) ? watched_of(self) : nullptr;
  if (watched == nullptr) {
    return false;
  }
  const std::string& overload = caught.schema().overload_name();
  ARGOSY_CHECK(
      overload == "source_Tensor",
      "[sharding] set_({}) of a parameter of a sharded model, expected a "
      "tensor: its memory belongs to the model",
      overload);
  watch_of(*watched, "set_")
      ->take_value(watched->memory, self, caught.arguments()[1].toTensor());
  torch::jit::drop(caught.stack(), caught.schema().arguments().size());
  caught.stack().emplace_back(self);
  return true;
}

void run_watched(CaughtOp& caught, c10::function_ref<void()> next) {
  if (caught.schema().name() == "aten::set_" && run_set(caught)) {
    return;
  }
  const Uses uses(caught.schema(), caught.arguments());
  // weight.t() in a linear layer must not gather: the op that reads the view
  // does.
  if (!is_view(caught.schema())) {
    uses.before();
  }
  next();
  uses.after();
  mark_views(caught.results(), caught.stack().data() + caught.stack().size());
}

// torch::save() reads memory without an op.
void check_save(const std::string& name, const at::Tensor& tensor) {
  if (const Watched* watched = watched_of(tensor)) {
    watch_of(*watched, "torch::save")->before_save(name);
  }
}

} // namespace

c10::Storage watched_storage(
    std::size_t bytes, std::weak_ptr<MemoryWatch> watch, std::size_t memory) {
  torch_hooks::install_interceptor(
      torch_hooks::InterceptOrder::kMemory, "sharded parameters", &run_watched);
  torch_hooks::install_save_check(&check_save);
  return torch_hooks::make_owning_storage(
      bytes, Watched{std::move(watch), memory});
}

void move_into(
    const at::Tensor& tensor, const c10::Storage& storage, std::int64_t begin) {
  torch_hooks::move_marked(tensor, kHook, storage, begin);
}

bool is_watched(const at::Tensor& tensor) {
  return watched_of(tensor) != nullptr;
}

} // namespace argosy::sharding
