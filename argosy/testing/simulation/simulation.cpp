#include "argosy/testing/simulation/simulation.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "argosy/common/deadline.h"

namespace argosy::testing {

class Simulation::Task {
 public:
  Task(int of_node, Stacks& stacks, std::function<void()> run)
      : node(of_node), fiber(stacks, std::move(run)) {}

  const int node;
  Fiber fiber;
  std::weak_ptr<Task> self{};
  std::uint64_t sleep = 0; // counts waits: an entry of an earlier one is void
  // While it waits for another of its node, which a crash ends by itself.
  bool may_throw = true;
};

// A Background is told to stop by a flag, and by being woken.
class Simulation::Thread final : public Background, Background::Sleeper {
 public:
  Thread(Simulation& simulation, Work work)
      : simulation_(simulation),
        work_(std::move(work)),
        task_(simulation.new_task(
            simulation.current_node(), [this] { run(); })) {}
  ~Thread() override { stop(); }

  void stop() override {
    stopped_ = true;
    if (ended_) {
      return;
    }
    simulation_.wake(task_);
    waiter_ = simulation_.current();
    Task& waiter = *simulation_.current_;
    waiter.may_throw = false;
    while (!ended_) {
      simulation_.park(TimePoint::max());
    }
    waiter.may_throw = true;
  }

  bool sleep_until(TimePoint time) override {
    while (!stopped_ && simulation_.now() < time) {
      simulation_.park(time);
    }
    return !stopped_;
  }

 private:
  using TimePoint = Timeline::TimePoint;

  void run() {
    try {
      if (!stopped_) {
        work_(*this);
      }
    } catch (const Crashed&) {
    }
    ended_ = true;
    simulation_.wake(waiter_);
  }

  Simulation& simulation_;
  const Work work_;
  bool stopped_ = false;
  bool ended_ = false;
  TaskRef waiter_;
  const std::shared_ptr<Task> task_;
};

bool Simulation::Later::operator()(const Entry& a, const Entry& b) const {
  return std::tie(a.time, a.order, a.number) >
      std::tie(b.time, b.order, b.number);
}

Simulation::Simulation(std::uint64_t seed) : random_(seed) {}

// Threads that still wait are ended as by a crash, so that what they hold is
// freed.
Simulation::~Simulation() {
  const ScopedTimeline scope(*this);
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    crash(static_cast<int>(node));
  }
  while (!heap_.empty()) {
    const Entry entry = pop();
    now_ = std::max(now_, entry.time);
    if (entry.task != nullptr && !is_void(entry)) {
      resume(entry.task);
    }
  }
}

int Simulation::add_node(std::string name) {
  nodes_.push_back({.name = std::move(name)});
  return static_cast<int>(nodes_.size()) - 1;
}

void Simulation::spawn(int node, std::function<void()> run) {
  new_task(node, [this, node, run = std::move(run)] {
    try {
      if (!nodes_[node].crashed) {
        run();
      }
    } catch (const Crashed&) {
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
}

std::shared_ptr<Simulation::Task> Simulation::new_task(
    int node, std::function<void()> run) {
  auto task = std::make_shared<Task>(node, stacks_, std::move(run));
  task->self = task;
  nodes_[node].tasks.push_back(task);
  schedule(task, now_);
  return task;
}

void Simulation::after(std::chrono::nanoseconds delay, Event event) {
  push(
      {.time = now_ + delay,
       .order = random_.next(),
       .number = num_entries_++,
       .task = nullptr,
       .sleep = 0,
       .event = std::move(event)});
}

void Simulation::schedule(const std::shared_ptr<Task>& task, TimePoint time) {
  push(
      {.time = time,
       .order = random_.next(),
       .number = num_entries_++,
       .task = task,
       .sleep = task->sleep,
       .event = nullptr});
}

void Simulation::push(Entry entry) {
  heap_.push_back(std::move(entry));
  std::ranges::push_heap(heap_, Later{});
}

Simulation::Entry Simulation::pop() {
  std::ranges::pop_heap(heap_, Later{});
  Entry entry = std::move(heap_.back());
  heap_.pop_back();
  return entry;
}

// Whether the thread was woken before, or has ended.
bool Simulation::is_void(const Entry& entry) const {
  return entry.task != nullptr &&
      (entry.sleep != entry.task->sleep || entry.task->fiber.has_ended());
}

void Simulation::run(std::chrono::nanoseconds limit, const Event& step) {
  const ScopedTimeline scope(*this);
  while (!heap_.empty()) {
    Entry entry = pop();
    if (is_void(entry)) {
      continue;
    }
    require(
        entry.time - TimePoint() <= limit,
        "not over after ",
        duration_text(limit),
        ": ",
        waiting_text());
    now_ = std::max(now_, entry.time);
    step_of(std::move(entry));
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    step();
  }
}

void Simulation::step_of(Entry entry) {
  ++num_steps_;
  mix(static_cast<std::uint64_t>(elapsed().count()));
  if (entry.task == nullptr) {
    entry.event();
    return;
  }
  mix(static_cast<std::uint64_t>(entry.task->node) + 1);
  const Node& node = nodes_[entry.task->node];
  if (!node.crashed && now_ < node.paused_until) {
    schedule(entry.task, node.paused_until);
  } else {
    resume(entry.task);
  }
}

void Simulation::resume(const std::shared_ptr<Task>& task) {
  current_ = task.get();
  ++task->sleep;
  task->fiber.resume();
  current_ = nullptr;
  if (task->fiber.has_ended()) {
    std::erase(nodes_[task->node].tasks, task);
  }
}

void Simulation::suspend_current(TimePoint time) {
  Task* const task = current_;
  if (time != TimePoint::max()) {
    schedule(task->self.lock(), std::max(time, now_));
  }
  task->fiber.suspend();
}

int Simulation::current_node() const {
  return current_ == nullptr ? -1 : current_->node;
}

Timeline::TimePoint Simulation::now() {
  const bool crashed = current_ != nullptr && nodes_[current_->node].crashed;
  // Not max(), so that sums do not overflow.
  return crashed ? now_ + std::chrono::hours(24 * 365 * 10) : now_;
}

void Simulation::park(TimePoint time) {
  ARGOSY_ASSERT(current_ != nullptr, "[testing.simulation] no thread waits");
  const Node& node = nodes_[current_->node];
  if (!node.crashed || !current_->may_throw) {
    suspend_current(time);
  }
  if (nodes_[current_->node].crashed && current_->may_throw) {
    throw Crashed();
  }
}

Simulation::TaskRef Simulation::current() const {
  return current_ == nullptr ? TaskRef() : current_->self;
}

void Simulation::wake(const TaskRef& task) {
  if (const auto found = task.lock()) {
    schedule(found, now_);
  }
}

void Simulation::sleep_until(TimePoint time) {
  while (now() < time) {
    park(time);
  }
}

std::unique_ptr<Background> Simulation::start(Background::Work work) {
  return std::make_unique<Thread>(*this, std::move(work));
}

void Simulation::crash(int node) {
  if (nodes_[node].crashed) {
    return;
  }
  nodes_[node].crashed = true;
  note(nodes_[node].name, " crashes");
  for (const auto& task : nodes_[node].tasks) {
    if (task.get() != current_) {
      wake(task);
    }
  }
}

bool Simulation::has_crashed(int node) const {
  return nodes_[node].crashed;
}

void Simulation::pause(int node, std::chrono::nanoseconds time) {
  nodes_[node].paused_until = std::max(nodes_[node].paused_until, now_ + time);
  note(nodes_[node].name, " is paused for ", duration_text(time));
}

Simulation::TimePoint Simulation::paused_until(int node) const {
  return nodes_[node].paused_until;
}

std::string Simulation::waiting_text() const {
  std::vector<std::string> waiting;
  for (const Node& node : nodes_) {
    if (!node.tasks.empty()) {
      waiting.push_back(str(node.name, " (", node.tasks.size(), ")"));
    }
  }
  return str("threads of ", join(waiting, ", "), " have not ended");
}

void Simulation::add_line(const std::string& text) {
  char time[32];
  std::snprintf(
      time,
      sizeof(time),
      "%10.6f ",
      std::chrono::duration<double>(elapsed()).count());
  trace_ +=
      str(time,
          current_ == nullptr ? "" : str(nodes_[current_->node].name, ": "),
          text,
          "\n");
}

void Simulation::mix(std::uint64_t value) {
  hash_ = Random(hash_ ^ value).next();
}

} // namespace argosy::testing
