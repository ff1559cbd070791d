#include "argosy/comm/message/c10d_failure_store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <utility>

#include "argosy/comm/backend/limited_call.h"

namespace argosy::comm::message {

namespace {

// Who serves the store may be the one that hangs.
constexpr auto kLimit = std::chrono::seconds(2);

using StorePtr = c10::intrusive_ptr<::c10d::Store>;

std::vector<std::uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<std::uint8_t>& value) {
  return {value.begin(), value.end()};
}

template <typename Call>
auto limited(Call call) {
  return limited_call(
      std::move(call),
      Deadline::after(kLimit),
      "[comm] the group's store does not answer");
}

class C10dFailureStore final : public FailureStore {
 public:
  explicit C10dFailureStore(StorePtr store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& text) override {
    limited([store = store_, key, text] {
      store->set(key, bytes(text));
      return true;
    });
  }

  std::optional<std::string> get(const std::string& key) override {
    return limited([store = store_, key]() -> std::optional<std::string> {
      if (!store->check({key})) {
        return std::nullopt;
      }
      return text_of(store->get(key));
    });
  }

  std::string claim(const std::string& key, const std::string& text) override {
    return limited([store = store_, key, text] {
      return text_of(store->compareSet(key, {}, bytes(text)));
    });
  }

 private:
  const StorePtr store_;
};

} // namespace

std::shared_ptr<FailureStore> make_c10d_failure_store(const StorePtr& store) {
  return std::make_shared<C10dFailureStore>(
      c10::make_intrusive<::c10d::PrefixStore>("failures", store));
}

} // namespace argosy::comm::message
