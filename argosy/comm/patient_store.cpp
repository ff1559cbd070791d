#include "argosy/comm/patient_store.h"

#include <utility>

#include "argosy/common/backoff.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"

namespace argosy::comm {

PatientStore::PatientStore(c10::intrusive_ptr<c10d::Store> store)
    : c10d::Store(store->getTimeout()), store_(std::move(store)) {}

PatientStore::~PatientStore() = default;

void PatientStore::set(
    const std::string& key, const std::vector<std::uint8_t>& value) {
  store_->set(key, value);
}

std::vector<std::uint8_t> PatientStore::compareSet(
    const std::string& key,
    const std::vector<std::uint8_t>& expected,
    const std::vector<std::uint8_t>& desired) {
  return store_->compareSet(key, expected, desired);
}

std::vector<std::uint8_t> PatientStore::get(const std::string& key) {
  wait({key});
  return store_->get(key);
}

std::int64_t PatientStore::add(const std::string& key, std::int64_t value) {
  return store_->add(key, value);
}

bool PatientStore::deleteKey(const std::string& key) {
  return store_->deleteKey(key);
}

bool PatientStore::check(const std::vector<std::string>& keys) {
  return store_->check(keys);
}

std::int64_t PatientStore::getNumKeys() {
  return store_->getNumKeys();
}

void PatientStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void PatientStore::wait(
    const std::vector<std::string>& keys,
    const std::chrono::milliseconds& timeout) {
  const Deadline deadline = Deadline::after(timeout);
  Backoff backoff(std::chrono::microseconds(50), std::chrono::milliseconds(4));
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

} // namespace argosy::comm
