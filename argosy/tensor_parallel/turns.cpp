#include "argosy/tensor_parallel/turns.h"

#include <ATen/ThreadLocalState.h>

#include <optional>

#include "argosy/comm/operation/observer.h"
#include "argosy/observe/span.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/torch_hooks/autocast.h"
#include "argosy/world/world.h"

namespace argosy::tensor_parallel {

void Turns::wait_for(int index) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return current_ == index; });
}

void Turns::pass(int index) {
  give_on(index);
  wait_for(index);
}

void Turns::leave(int index) {
  {
    const std::lock_guard lock(mutex_);
    here_[static_cast<std::size_t>(index)] = false;
  }
  give_on(index);
}

// The thread itself is the last candidate: alone, it keeps the turn.
void Turns::give_on(int index) {
  const std::lock_guard lock(mutex_);
  const int count = static_cast<int>(here_.size());
  for (int step = 1; step <= count; ++step) {
    const int next = (index + step) % count;
    if (here_[static_cast<std::size_t>(next)]) {
      current_ = next;
      break;
    }
  }
  changed_.notify_all();
}

namespace {

// Passes the turn on when its thread waits for an operation. Lives from the
// first turn of the thread on.
class Seat final : public comm::ThreadObserver {
 public:
  Seat(Turns& turns, int index)
      : ThreadObserver(Waits::Observed), turns_(turns), index_(index) {
    const observe::Span span(kOthers);
    turns_.wait_for(index_);
  }
  ~Seat() override { turns_.leave(index_); }

  Token on_issue(const comm::Call&, const std::vector<int>&) override {
    return 0;
  }
  // Comm calls it on the thread that is about to wait. The turn goes round
  // before the wait, so by then the others have had time to work.
  void before_wait() override {
    {
      const observe::Span span(kOthers);
      turns_.pass(index_);
    }
    wait_.emplace("wait for an operation", observe::Activity::Wait);
  }
  void after_wait() override { wait_.reset(); }

 private:
  static constexpr const char* kOthers = "turn of others";

  Turns& turns_;
  const int index_;
  std::optional<observe::Span> wait_;
};

} // namespace

TurnThreads::TurnThreads(int count) : count_(count) {
  for (int index = 0; index < count; ++index) {
    threads_.emplace_back([this, index] { loop(index); });
  }
}

TurnThreads::~TurnThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

// `done` counts the rounds of this thread, so a spurious wake-up or a slow
// thread neither repeats nor misses a round. run() waits for all threads, so
// task_ cannot change under one.
void TurnThreads::loop(int index) {
  std::unique_lock lock(mutex_);
  for (int done = 0;; ++done) {
    changed_.wait(lock, [&] { return stop_ || round_ > done; });
    if (stop_) {
      return;
    }
    const auto& task = *task_;
    lock.unlock();
    task(index);
    lock.lock();
    --running_;
    changed_.notify_all();
  }
}

void TurnThreads::run(
    const std::string& name, const std::function<void(int)>& body) {
  Turns turns(count_);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(count_));
  // All that belongs to the caller's thread: the parts must see its rank, grad
  // mode, autocast and random stream.
  const auto world = current_world();
  const at::ThreadLocalState state;
  const torch_hooks::Autocast autocast;
  const at::Generator* const generator = RngStatesTracker::Scope::current();
  const std::function<void(int)> task = [&](int index) {
    const at::ThreadLocalStateGuard same_state(state);
    const WorldScope same_world(world);
    const torch_hooks::AutocastScope same_autocast(autocast);
    std::optional<RngStatesTracker::Scope> same_generator;
    if (generator != nullptr) {
      same_generator.emplace(*generator);
    }
    const observe::Span span(name);
    // Its destructor passes the turn on, also after an exception.
    const Seat seat(turns, index);
    try {
      body(index);
    } catch (...) {
      thrown[static_cast<std::size_t>(index)] = std::current_exception();
    }
  };
  {
    std::unique_lock lock(mutex_);
    task_ = &task;
    running_ = count_;
    ++round_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return running_ == 0; });
  }
  for (const std::exception_ptr& each : thrown) {
    if (each) {
      std::rethrow_exception(each);
    }
  }
}

} // namespace argosy::tensor_parallel
