#include "bench/rpc_bare.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "argosy/common/error.h"
#include "bench/rpc_measure.h"

namespace argosy::bench {

namespace {

// A line of memory that one thread writes and another one reads.
struct alignas(128) Line {
  std::atomic<int> number{0};
  char bytes[64] = {};
};

void await(const Line& line, int number) {
  while (line.number.load(std::memory_order_acquire) < number) {
    __builtin_ia32_pause();
  }
}

// About what a call of 64 bytes takes us, so that slow tasks come as often as
// slow calls do.
constexpr std::chrono::nanoseconds kBareWork(1000);

void work(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Threads that sleep kSlowCall for each task, as those for slow calls do.
class Sleepers {
 public:
  Sleepers() {
    for (int i = 0; i < 64; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ~Sleepers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  void add() {
    {
      const std::lock_guard lock(mutex_);
      ++tasks_;
    }
    changed_.notify_one();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return tasks_ > 0 || stopping_; });
      if (stopping_) {
        return;
      }
      --tasks_;
      lock.unlock();
      std::this_thread::sleep_for(kSlowCall);
      ended_.fetch_add(1);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int tasks_ = 0;         // guarded by mutex_
  bool stopping_ = false; // guarded by mutex_
  std::atomic<int> ended_{0};
  std::vector<std::thread> threads_;
};

} // namespace

double bare_socket_us(std::size_t size, int count) {
  int ends[2];
  ARGOSY_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "[bench]");
  const auto move = [size](auto act) {
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = act(done);
      ARGOSY_CHECK(n > 0, "[bench] socket");
      done += static_cast<std::size_t>(n);
    }
  };
  const auto send = [&](int fd, std::string& bytes) {
    move([&](std::size_t done) {
      return ::write(fd, bytes.data() + done, size - done);
    });
  };
  const auto receive = [&](int fd, std::string& bytes) {
    move([&](std::size_t done) {
      return ::read(fd, bytes.data() + done, size - done);
    });
  };
  std::thread other([&] {
    std::string bytes(size, 'x');
    for (int i = 0; i < count; ++i) {
      receive(ends[1], bytes);
      send(ends[1], bytes);
    }
  });
  std::string bytes(size, 'x');
  const double median = median_us(count, [&] {
    send(ends[0], bytes);
    receive(ends[0], bytes);
  });
  other.join();
  ::close(ends[0]);
  ::close(ends[1]);
  return median;
}

double two_copies_us(std::size_t size, int count) {
  std::string from(size, 'x');
  std::string between(size, 'y');
  std::string to(size, 'z');
  return median_us(count, [&] {
    std::memcpy(between.data(), from.data(), size);
    asm volatile("" : : "r"(between.data()) : "memory");
    std::memcpy(to.data(), between.data(), size);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
}

double bare_memory_p99_us(int count, bool slow) {
  Line there;
  Line back;
  std::atomic<int> slow_asked{0};
  Sleepers sleepers;
  std::thread other([&] {
    int slow_done = 0;
    for (int i = 1; i <= count; ++i) {
      await(there, i);
      work(kBareWork);
      std::memcpy(back.bytes, there.bytes, sizeof(back.bytes));
      back.number.store(i, std::memory_order_release);
      for (; slow_done < slow_asked.load(); ++slow_done) {
        sleepers.add();
      }
    }
  });
  int number = 0;
  const double p99 = p99_us(
      count,
      slow,
      [&] {
        std::memset(there.bytes, number, sizeof(there.bytes));
        there.number.store(++number, std::memory_order_release);
        await(back, number);
      },
      [&] { slow_asked.fetch_add(1); });
  other.join();
  return p99;
}

} // namespace argosy::bench
