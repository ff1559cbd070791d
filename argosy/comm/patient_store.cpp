#include "argosy/comm/patient_store.h"

#include <utility>

#include "argosy/comm/backend/forwarding_store.h"
#include "argosy/comm/member_watch.h"
#include "argosy/common/backoff.h"
#include "argosy/common/deadline.h"

namespace argosy::comm {

namespace {

class PatientStore final : public ForwardingStore {
 public:
  PatientStore(
      c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<MemberWatch> watch)
      : ForwardingStore(std::move(store)), watch_(std::move(watch)) {}

  void set(const std::string& key, const Bytes& value) override {
    inner()->set(key, value);
    watch_->advance();
  }
  Bytes get(const std::string& key) override {
    wait({key});
    return inner()->get(key);
  }
  void wait(const Keys& keys) override { wait_until(keys, watch_->deadline()); }
  void wait(
      const Keys& keys, const std::chrono::milliseconds& timeout) override {
    wait_until(keys, watch_->deadline().earlier(timeout));
  }

 private:
  void wait_until(const Keys& keys, Deadline deadline) {
    Backoff backoff(
        std::chrono::microseconds(50), std::chrono::milliseconds(4));
    auto next_watch = Deadline::Clock::now() + watch_->interval();
    for (const std::string& key : keys) {
      while (!inner()->check({key})) {
        if (const auto end = watch_->given_up()) {
          std::rethrow_exception(end);
        }
        std::exception_ptr error;
        if (deadline.expired()) {
          error = watch_->time_is_up();
        } else if (Deadline::Clock::now() >= next_watch) {
          error = watch_->trouble();
          next_watch = Deadline::Clock::now() + watch_->interval();
        }
        // Who is in trouble may have set the key before.
        if (error && !inner()->check({key})) {
          std::rethrow_exception(error);
        }
        backoff.pause(deadline);
      }
    }
  }

  const std::shared_ptr<MemberWatch> watch_;
};

} // namespace

c10::intrusive_ptr<c10d::Store> make_patient_store(
    c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<MemberWatch> watch) {
  return c10::make_intrusive<PatientStore>(std::move(store), std::move(watch));
}

} // namespace argosy::comm
