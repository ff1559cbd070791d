#include "argosy/torch_hooks/memoryless.h"

#include <cstring>
#include <mutex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/keys.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::torch_hooks {

namespace {

struct Reasons {
  std::mutex mutex;
  // Guarded by mutex.
  std::vector<std::pair<c10::DeleterFnPtr, WhyNoMemory>> by_deleter;
};

Reasons& reasons() {
  static Reasons* const all = new Reasons; // used until the very end
  return *all;
}

WhyNoMemory reason_of(c10::DeleterFnPtr deleter) {
  const std::lock_guard lock(reasons().mutex);
  for (const auto& [known, why] : reasons().by_deleter) {
    if (known == deleter) {
      return why;
    }
  }
  return nullptr;
}

// What the storage of a released tensor owns.
struct Released {
  std::string why;
};

// Has no members of its own, so that a tensor can change between this class and
// the plain one: see set_class().
class Memoryless final : public c10::TensorImpl {
 public:
  using c10::TensorImpl::TensorImpl;

  bool has_storage() const override { refuse(); }
  const c10::Storage& storage() const override { refuse(); }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version, bool may_change) const override {
    return refusing(TensorImpl::shallow_copy_and_detach(version, may_change));
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version, bool may_change) const override {
    return refusing(
        TensorImpl::shallow_copy_and_detach(std::move(version), may_change));
  }

  [[noreturn]] void refuse() const {
    const at::DataPtr& data = unsafe_storage().data_ptr();
    if (data.get_deleter() == &destroy_owned<Released>) {
      throw InvalidArgument(static_cast<Released*>(data.get_context())->why);
    }
    const WhyNoMemory why = reason_of(data.get_deleter());
    throw InvalidArgument(
        why ? why(data.get_context(), sizes())
            : str_format(
                  "[torch_hooks] a tensor of shape {} has no memory", sizes()));
  }

 private:
  c10::intrusive_ptr<c10::TensorImpl> refusing(
      c10::intrusive_ptr<c10::TensorImpl> copy) const {
    refuse_as(*copy, *this);
    return copy;
  }
};

bool is_plain(const c10::TensorImpl& impl) {
  return typeid(impl) == typeid(c10::TensorImpl);
}

bool is_memoryless(const c10::TensorImpl& impl) {
  return typeid(impl) == typeid(Memoryless);
}

// Handles point to the TensorImpl, so a tensor that becomes another for all who
// hold it must change its class in place. Both classes have the same members;
// what differs is the pointer to the table of virtual functions, which comes
// first.
void set_class(c10::TensorImpl& impl, const c10::TensorImpl& like) {
  static_assert(sizeof(Memoryless) == sizeof(c10::TensorImpl));
  std::memcpy(
      static_cast<void*>(&impl),
      static_cast<const void*>(&like),
      sizeof(void*));
}

// torch::load() gives a tensor the memory of what it has read: by set_(), or by
// set_data(), which asks first whether that is possible.
void refuse_loads(CaughtOp& caught, c10::function_ref<void()> next) {
  const std::string& name = caught.schema().name();
  if (name == "aten::set_" ||
      name == "aten::_has_compatible_shallow_copy_type") {
    const auto& self = *caught.arguments()[0].toTensor().unsafeGetTensorImpl();
    if (is_memoryless(self)) {
      static_cast<const Memoryless&>(self).refuse();
    }
  }
  next();
}

} // namespace

void explain_no_memory(c10::DeleterFnPtr deleter, WhyNoMemory why) {
  const std::lock_guard lock(reasons().mutex);
  reasons().by_deleter.emplace_back(deleter, why);
}

c10::intrusive_ptr<c10::TensorImpl> make_memoryless(
    c10::Storage storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype) {
  return c10::make_intrusive<Memoryless>(std::move(storage), keys, dtype);
}

at::Tensor make_released(const at::Tensor& like, std::string why) {
  install_interceptor(
      InterceptOrder::kReleased, "released states", &refuse_loads);
  auto impl = make_memoryless(
      make_owning_storage(0, Released{std::move(why)}, c10::kMeta),
      c10::DispatchKeySet(c10::DispatchKey::Meta)
          .add(key_of(OpHook::kIntercept)),
      like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides());
  return at::Tensor(std::move(impl));
}

void refuse_as(c10::TensorImpl& impl, const c10::TensorImpl& other) {
  if ((is_plain(impl) && is_memoryless(other)) ||
      (is_memoryless(impl) && is_plain(other))) {
    set_class(impl, other);
  }
}

} // namespace argosy::torch_hooks
