#include "argosy/common/thread_context.h"

#include <atomic>

namespace argosy {

thread_local constinit ThreadContext* detail::thread_context = nullptr;

// Deletes the context when the thread ends.
struct ThreadContext::Owner {
  ~Owner() {
    delete detail::thread_context;
    detail::thread_context = nullptr;
  }
};

ThreadContext& ThreadContext::make_current() {
  detail::thread_context = new ThreadContext;
  thread_local Owner owner;
  static_cast<void>(owner);
  return *detail::thread_context;
}

ThreadContext::~ThreadContext() {
  // A value may use older ones while it is destroyed, but not itself.
  while (!values_.empty()) {
    const std::shared_ptr<void> youngest = std::move(values_.back());
    values_.pop_back();
    for (void*& slot : slots_) {
      slot = slot == youngest.get() ? nullptr : slot;
    }
  }
}

std::size_t ThreadContext::new_index() {
  static std::atomic<std::size_t> next{0};
  return next++;
}

void ThreadContext::keep(std::size_t index, std::shared_ptr<void> value) {
  if (slots_.size() <= index) {
    slots_.resize(index + 1, nullptr);
  }
  slots_[index] = value.get();
  values_.push_back(std::move(value));
}

} // namespace argosy
