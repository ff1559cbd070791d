#include "argosy/rpc/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "argosy/common/error.h"
#include "argosy/common/log.h"

namespace argosy::rpc {

namespace {

constexpr std::uint64_t kEventId = 0; // of the eventfd

// When deferred tasks run: after so long a pause, or when they waited so long.
constexpr std::chrono::microseconds kPause(4);
constexpr std::chrono::microseconds kLongestDelay(500);

// How often it works in shared memory before it looks at descriptors.
constexpr int kBusyPasses = 32;

std::int64_t as_ns(Loop::Time time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

void control(
    int epoll, int action, int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll, action, fd, &event);
}

} // namespace

Loop::Loop(std::function<Time(Time now)> tick)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      tick_(std::move(tick)),
      next_tick_(as_ns(Time::max())) {
  if (epoll_.fd() < 0 || event_.fd() < 0) {
    throw SystemError(with_errno("[rpc.loop] cannot start"));
  }
  // Edge-triggered: each write wakes, and nobody has to read.
  control(epoll_.fd(), EPOLL_CTL_ADD, event_.fd(), EPOLLIN | EPOLLET, kEventId);
}

Loop::~Loop() {
  stop();
}

void Loop::start() {
  thread_ = std::thread([this] { run(); });
}

void Loop::stop() {
  if (thread_.joinable()) {
    post([this] { stopping_ = true; });
    thread_.join();
  }
  // They hold the loop, too.
  polled_.clear();
  deferred_.clear();
  std::map<std::uint64_t, std::shared_ptr<Source>> watched;
  std::vector<std::function<void()>> posted;
  const std::lock_guard lock(mutex_);
  watched.swap(watched_);
  posted.swap(posted_);
}

bool Loop::on_thread() const {
  return std::this_thread::get_id() == thread_.get_id();
}

std::uint64_t Loop::watch(
    int fd, std::uint32_t events, std::shared_ptr<Source> source) {
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = ++last_id_;
    watched_[id] = std::move(source);
  }
  control(epoll_.fd(), EPOLL_CTL_ADD, fd, events, id);
  return id;
}

void Loop::change(std::uint64_t id, int fd, std::uint32_t events) {
  control(epoll_.fd(), EPOLL_CTL_MOD, fd, events, id);
}

void Loop::forget(std::uint64_t id, int fd) {
  std::shared_ptr<Source> last; // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(id);
  if (found != watched_.end()) {
    ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, fd, nullptr);
    last = std::move(found->second);
    watched_.erase(found);
  }
}

void Loop::add_polled(std::shared_ptr<Source> source) {
  polled_.push_back(std::move(source));
}

void Loop::drop_polled(const Source* source) {
  std::erase_if(
      polled_, [&](const auto& polled) { return polled.get() == source; });
}

void Loop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
  }
  has_posted_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_.fd(), &one, sizeof(one));
}

bool Loop::lower_next_tick(Time time) {
  std::int64_t known = next_tick_.load();
  while (as_ns(time) < known) {
    if (next_tick_.compare_exchange_weak(known, as_ns(time))) {
      return true;
    }
  }
  return false;
}

void Loop::at_latest(Time time) {
  if (lower_next_tick(time) && !on_thread()) {
    post([] {}); // so that it sleeps no longer
  }
}

void Loop::run() {
  while (!stopping_) {
    const bool worked = poll_all();
    run_posted();
    const auto now = Deadline::Clock::now();
    run_tick(now);
    if (!deferred_.empty() && now - deferred_since_ > kLongestDelay) {
      run_deferred();
    }
    if (!worked && !stopping_) {
      wait();
    } else if (++busy_passes_ >= kBusyPasses) {
      handle_events(0);
    }
  }
}

bool Loop::has_work() const {
  return has_posted_.load(std::memory_order_relaxed) ||
      std::any_of(polled_.begin(), polled_.end(), [](const auto& source) {
           return source->has_work();
         });
}

bool Loop::expects_work() const {
  return std::any_of(polled_.begin(), polled_.end(), [](const auto& source) {
    return source->expects_work();
  });
}

// Looks for work in shared memory, or for more from a socket that has just been
// heard of. Returns whether there was any.
bool Loop::spin() {
  if (expects_work()) {
    // The end of expectations ends a spin, too.
    return spin_.spin([this] { return has_work() || !expects_work(); }) &&
        has_work();
  }
  return socket_talks_ &&
      socket_spin_.spin([this] { return handle_events(0) || has_work(); });
}

// Whether something happens within kPause.
bool Loop::works_soon() {
  const auto end = Deadline::Clock::now() + kPause;
  while (Deadline::Clock::now() < end) {
    if (expects_work() ? has_work() : handle_events(0) || has_work()) {
      return true;
    }
  }
  return false;
}

// Spins, then sleeps until something happens. After deferred tasks, sleeps at
// once: whom they have woken needs a CPU.
void Loop::wait() {
  const bool tasks = !deferred_.empty();
  if (tasks) {
    if (works_soon()) {
      return;
    }
    run_deferred();
  }
  SpinBudget& budget = expects_work() ? spin_ : socket_spin_;
  const bool spins = !tasks && (expects_work() || socket_talks_);
  if (spins && spin()) {
    return;
  }
  const auto before = Deadline::Clock::now();
  handle_events(prepare_sleep() ? next_timeout() : 0);
  if (spins) {
    budget.slept(woken_ - before);
  }
  for (const auto& source : polled_) {
    source->end_wait();
  }
}

bool Loop::prepare_sleep() {
  bool sleep = true;
  for (const auto& source : polled_) {
    sleep = source->await_event() && sleep;
  }
  return sleep && !has_posted_;
}

// Returns whether a source had some.
bool Loop::handle_events(int timeout_ms) {
  busy_passes_ = 0;
  socket_talks_ = false;
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_.fd(), events.data(), events.size(), timeout_ms);
  woken_ = Deadline::Clock::now();
  for (int i = 0; i < count; ++i) {
    std::shared_ptr<Source> source;
    {
      const std::lock_guard lock(mutex_);
      const auto found = watched_.find(events[i].data.u64);
      if (found != watched_.end()) {
        source = found->second;
      }
    }
    if (source != nullptr) {
      source->on_events(events[i].events);
      socket_talks_ = true;
    }
  }
  return socket_talks_;
}

bool Loop::poll_all() {
  bool worked = false;
  // By index: a source may add or drop others meanwhile.
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    const auto source = polled_[i];
    worked = source->poll() || worked;
  }
  return worked;
}

void Loop::run_posted() {
  if (!has_posted_.exchange(false)) {
    return;
  }
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) {
    task();
  }
}

void Loop::defer(std::function<void()> task) {
  if (deferred_.empty()) {
    deferred_since_ = Deadline::Clock::now();
  }
  deferred_.push_back(std::move(task));
}

void Loop::run_deferred() {
  std::vector<std::function<void()>> tasks;
  tasks.swap(deferred_);
  for (const auto& task : tasks) {
    task();
  }
}

void Loop::run_tick(Time now) {
  if (next_tick_ <= as_ns(now)) {
    // First, so that at_latest() calls meanwhile are not lost.
    next_tick_ = as_ns(Time::max());
    lower_next_tick(tick_(now));
  }
}

// The milliseconds until the next tick, rounded up.
int Loop::next_timeout() const {
  const std::int64_t left = next_tick_ - as_ns(Deadline::Clock::now());
  return static_cast<int>(
      std::clamp<std::int64_t>(left / 1000000 + 1, 0, 3600 * 1000));
}

} // namespace argosy::rpc
