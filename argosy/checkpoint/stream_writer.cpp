#include "argosy/checkpoint/stream_writer.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "argosy/checkpoint/huge_buffer.h"
#include "argosy/common/fault_point.h"

namespace argosy::checkpoint {

namespace {

struct Buffer {
  std::unique_ptr<HugeBuffer> memory;
  std::size_t used = 0;
};

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
constexpr std::size_t kNumBuffers = 3;

} // namespace

std::unique_ptr<HugeBuffer> WriteBuffers::take() {
  if (idle_.empty()) {
    return std::make_unique<HugeBuffer>(kBufferBytes, "save");
  }
  auto buffer = std::move(idle_.back());
  idle_.pop_back();
  return buffer;
}

void WriteBuffers::give_back(std::unique_ptr<HugeBuffer> buffer) {
  idle_.push_back(std::move(buffer));
}

struct StreamWriter::Impl {
  explicit Impl(WriteBuffers& its_buffers) : buffers(its_buffers) {
    for (std::size_t i = 0; i < kNumBuffers; ++i) {
      idle.push_back(std::make_unique<Buffer>(Buffer{buffers.take()}));
    }
    thread = std::thread([this] { run(); });
  }

  ~Impl() {
    std::deque<std::function<void()>> given_up;
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      given_up.swap(jobs);
    }
    changed.notify_all();
    given_up.clear(); // gives buffers back, which takes the lock
    thread.join();
    if (current != nullptr) {
      idle.push_back(std::move(current));
    }
    for (const auto& buffer : idle) {
      buffers.give_back(std::move(buffer->memory));
    }
  }

  // Runs jobs in order. After an error, jobs only give their buffers back.
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopping || !jobs.empty(); });
      if (jobs.empty()) {
        return;
      }
      auto job = std::move(jobs.front());
      jobs.pop_front();
      running = true;
      const bool failed = error != nullptr;
      lock.unlock();
      std::exception_ptr thrown;
      if (!failed) {
        try {
          job();
        } catch (...) {
          thrown = std::current_exception();
        }
      }
      job = nullptr; // gives its buffer back
      lock.lock();
      running = false;
      if (thrown != nullptr && error == nullptr) {
        error = thrown;
      }
      changed.notify_all();
    }
  }

  void add(std::function<void()> job) {
    const std::lock_guard lock(mutex);
    throw_error();
    jobs.push_back(std::move(job));
    changed.notify_all();
  }

  void throw_error() const {
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }

  std::unique_ptr<Buffer> take_buffer() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !idle.empty() || error != nullptr; });
    throw_error();
    auto buffer = std::move(idle.back());
    idle.pop_back();
    buffer->used = 0;
    return buffer;
  }

  void give_back(std::unique_ptr<Buffer> buffer) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(buffer));
    changed.notify_all();
  }

  // Hands the current buffer to the thread.
  void flush() {
    if (current == nullptr) {
      return;
    }
    const std::shared_ptr<Buffer> full(
        current.release(),
        [this](Buffer* buffer) { give_back(std::unique_ptr<Buffer>(buffer)); });
    add([writer = writer, deadline = deadline, full] {
      fault_point("checkpoint.write");
      writer->write({full->memory->data(), full->used}, deadline);
    });
  }

  void close() {
    if (writer == nullptr) {
      return;
    }
    flush();
    add([writer = std::exchange(writer, nullptr), deadline = deadline] {
      fault_point("checkpoint.before_file");
      writer->commit(deadline);
    });
  }

  // Of the caller.
  WriteBuffers& buffers;
  std::shared_ptr<fs::Writer> writer; // null: no file is open
  Deadline deadline = Deadline::after(std::chrono::milliseconds(0));
  std::unique_ptr<Buffer> current;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::vector<std::unique_ptr<Buffer>> idle;
  std::deque<std::function<void()>> jobs;
  std::exception_ptr error;
  bool running = false;
  bool stopping = false;

  std::thread thread; // last: it uses the others
};

StreamWriter::StreamWriter(WriteBuffers& buffers)
    : impl_(std::make_unique<Impl>(buffers)) {}

StreamWriter::~StreamWriter() = default;

void StreamWriter::open(
    fs::FileSystem& files,
    const std::string& path,
    std::uint64_t bytes,
    Deadline deadline) {
  impl_->close();
  impl_->writer = files.open_write(
      path, {.expected_bytes = bytes, .direct = true}, deadline);
  impl_->deadline = deadline;
}

void StreamWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (impl_->current == nullptr) {
      impl_->current = impl_->take_buffer();
    }
    Buffer& buffer = *impl_->current;
    const std::size_t count =
        std::min(bytes.size(), kBufferBytes - buffer.used);
    std::memcpy(buffer.memory->data() + buffer.used, bytes.data(), count);
    buffer.used += count;
    bytes = bytes.subspan(count);
    if (buffer.used == kBufferBytes) {
      impl_->flush();
    }
  }
}

void StreamWriter::finish() {
  impl_->close();
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(
      lock, [&] { return impl_->jobs.empty() && !impl_->running; });
  impl_->throw_error();
}

} // namespace argosy::checkpoint
