#include <algorithm>
#include <atomic>
#include <deque>
#include <future>

#include "argosy/common/log.h"
#include "argosy/fs/partial.h"
#include "argosy/fs/progress.h"
#include "argosy/fs/s3.h"

namespace argosy::fs {

namespace {

constexpr std::uint64_t kMostParts = 10'000;
constexpr std::size_t kUploadsAtOnce = 4;
// After so many parts of unknown files, parts become twice as large.
constexpr std::size_t kPartsBeforeGrowth = 2000;

// Sends a file in one request if it is small, else in parts, several at once,
// that become an object together. Memory: a part more than are under way.
class S3Writer : public Writer {
 public:
  S3Writer(
      std::shared_ptr<S3Client> client,
      std::string key,
      const WriteOptions& options)
      : client_(std::move(client)),
        key_(std::move(key)),
        mark_(random_id()),
        part_bytes_(std::max(
            client_->address().part_bytes,
            options.expected_bytes.value_or(0) / (kMostParts - 1) + 1)),
        meter_(
            client_->url(key_), options.expected_bytes, options.on_progress) {}

  ~S3Writer() override {
    if (is_done_ || upload_.empty()) {
      return;
    }
    cancelled_ = true;
    try {
      for (auto& part : under_way_) {
        part.wait();
      }
      client_->abort_upload(
          key_, upload_, Deadline::after(std::chrono::seconds(5)));
    } catch (const std::exception& error) {
      // A later sweep() removes it.
      log::debug("[fs.abort] {}: {}", client_->url(key_), error.what());
    }
  }

  void write(std::span<const std::byte> bytes, Deadline deadline) override {
    ARGOSY_CHECK(
        !is_done_, "[fs.write] {}: committed already", client_->url(key_));
    while (!bytes.empty()) {
      if (buffer_.size() == part_bytes_) {
        send_part(deadline);
      }
      const std::size_t count = static_cast<std::size_t>(
          std::min<std::uint64_t>(bytes.size(), part_bytes_ - buffer_.size()));
      buffer_.append(text_of(bytes.first(count)));
      bytes = bytes.subspan(count);
    }
  }

  void commit(Deadline deadline) override {
    ARGOSY_CHECK(
        !is_done_, "[fs.commit] {}: committed already", client_->url(key_));
    if (upload_.empty()) {
      client_->put(key_, buffer_, deadline);
      meter_.add(buffer_.size());
    } else {
      send_part(deadline);
      while (!under_way_.empty()) {
        await_part(deadline);
      }
      client_->complete_upload(key_, upload_, mark_, etags_, deadline);
    }
    is_done_ = true;
    meter_.finish();
  }

 private:
  void send_part(Deadline deadline) {
    if (upload_.empty()) {
      upload_ = client_->begin_upload(key_, mark_, deadline);
    }
    if (under_way_.size() == kUploadsAtOnce) {
      await_part(deadline);
    }
    const int number = static_cast<int>(etags_.size() + under_way_.size()) + 1;
    under_way_.push_back(std::async(
        std::launch::async,
        [this, number, deadline, body = std::move(buffer_)] {
          std::string etag = client_->put_part(
              key_, upload_, number, body, cancelled_, deadline);
          meter_.add(body.size());
          return etag;
        }));
    buffer_ = {};
    if (number % kPartsBeforeGrowth == 0) {
      part_bytes_ *= 2;
    }
  }

  void await_part(Deadline deadline) {
    std::future<std::string>& first = under_way_.front();
    if (first.wait_until(deadline.time()) != std::future_status::ready) {
      throw TimeoutError(
          str("[fs.write] ",
              client_->url(key_),
              ": part ",
              etags_.size() + 1,
              " did not arrive within ",
              deadline.limit_text()));
    }
    etags_.push_back(first.get());
    under_way_.pop_front();
  }

  const std::shared_ptr<S3Client> client_;
  const std::string key_;
  const std::string mark_; // tells this upload from others
  std::uint64_t part_bytes_;
  ProgressMeter meter_;
  std::string buffer_;
  std::string upload_; // empty before the first part
  std::vector<std::string> etags_;
  std::atomic<bool> cancelled_{false};
  std::deque<std::future<std::string>> under_way_; // their destructors wait
  bool is_done_ = false;
};

} // namespace

std::unique_ptr<Writer> open_s3_writer(
    std::shared_ptr<S3Client> client,
    const std::string& key,
    const WriteOptions& options) {
  return std::make_unique<S3Writer>(std::move(client), key, options);
}

} // namespace argosy::fs
