#include "argosy/comm/patient_store.h"

#include <utility>

#include "argosy/common/backoff.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

using Bytes = std::vector<std::uint8_t>;
using Keys = std::vector<std::string>;

class PatientStore final : public c10d::Store {
 public:
  explicit PatientStore(c10::intrusive_ptr<c10d::Store> store)
      : c10d::Store(store->getTimeout()), store_(std::move(store)) {}

  void set(const std::string& key, const Bytes& value) override {
    store_->set(key, value);
  }
  Bytes compareSet(
      const std::string& key,
      const Bytes& expected,
      const Bytes& desired) override {
    return store_->compareSet(key, expected, desired);
  }
  Bytes get(const std::string& key) override {
    wait({key});
    return store_->get(key);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return store_->add(key, value);
  }
  bool deleteKey(const std::string& key) override {
    return store_->deleteKey(key);
  }
  bool check(const Keys& keys) override { return store_->check(keys); }
  std::int64_t getNumKeys() override { return store_->getNumKeys(); }

  void wait(const Keys& keys) override { wait(keys, timeout_); }
  void wait(
      const Keys& keys, const std::chrono::milliseconds& timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    Backoff backoff(
        std::chrono::microseconds(50), std::chrono::milliseconds(4));
    for (const std::string& key : keys) {
      while (!store_->check({key})) {
        if (deadline.expired()) {
          throw TimeoutError(str_format(
              "[comm.connect] {} was not set within {}",
              key,
              deadline.limit_text()));
        }
        backoff.pause(deadline);
      }
    }
  }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
};

} // namespace

c10::intrusive_ptr<c10d::Store> make_patient_store(
    c10::intrusive_ptr<c10d::Store> store) {
  return c10::make_intrusive<PatientStore>(std::move(store));
}

} // namespace argosy::comm
