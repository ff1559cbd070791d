#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/common/timeline.h"
#include "argosy/testing/simulation/fiber.h"
#include "argosy/testing/simulation/random.h"

namespace argosy::testing {

// What every wait throws on a node that has crashed, so that its stacks unwind.
// A StoreError, because destructors may let no other exception through; the
// clock of such a node shows the end of time, so that no loop goes on.
class Crashed : public StoreError {
 public:
  Crashed() : StoreError("[testing.simulation] this node has crashed") {}
};

// An invariant does not hold. No Error, so that no code of a node catches it.
class Violation : public std::exception {
 public:
  explicit Violation(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  const std::string message_;
};

// Throws Violation with the parts as its text unless `holds`.
template <typename... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) {
    throw Violation(str(parts...));
  }
}

// Nodes whose threads run one at a time, in an order and at times that a seed
// decides. The clock jumps to the next event when all threads wait. The same
// seed gives the same run, step by step.
//
// Threads are fibers of the thread that calls run(); they wait by the functions
// of argosy/common/timeline.h, or in park().
class Simulation final : public Timeline {
 public:
  class Task;                          // a thread of a node
  using TaskRef = std::weak_ptr<Task>; // null once it has ended
  using Event = std::function<void()>;

  explicit Simulation(std::uint64_t seed);
  ~Simulation() override;
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Random& random() { return random_; }

  // A process of its own. Returns its number.
  int add_node(std::string name);

  // Starts a thread of a node. What it throws ends the simulation, except for
  // Crashed.
  void spawn(int node, std::function<void()> run);

  // Runs `event` after `delay`, outside of all nodes. It must not wait.
  void after(std::chrono::nanoseconds delay, Event event);

  // Runs until no event is left. Throws what a thread or `step`, called after
  // every event, throws. Throws Violation at `limit`, naming the threads that
  // still wait.
  void run(std::chrono::nanoseconds limit, const Event& step);

  // Ends a node: each of its threads throws Crashed from where it waits.
  void crash(int node);
  bool has_crashed(int node) const;

  // Stops all threads of a node for a time, as SIGSTOP does.
  void pause(int node, std::chrono::nanoseconds time);
  TimePoint paused_until(int node) const; // of the last pause; maybe past

  // The virtual time since the start; of the clock, not of a node.
  std::chrono::nanoseconds elapsed() const { return now_ - TimePoint(); }
  TimePoint clock() const { return now_; }

  // ---- For threads of nodes ----

  TimePoint now() override;
  void sleep_until(TimePoint time) override;
  std::unique_ptr<Background> start(Background::Work work) override;

  TaskRef current() const;
  int current_node() const;

  // Waits until wake() or `time`; throws Crashed.
  void park(TimePoint time);
  void wake(const TaskRef& task);

  // ---- The trace ----

  // Keeps lines of text from now on; else only the hash.
  void keep_trace() { keeps_trace_ = true; }

  template <typename... Parts>
  void note(const Parts&... parts) {
    if (keeps_trace_) {
      add_line(str(parts...));
    }
  }
  const std::string& trace() const { return trace_; }

  // Of every step: when, and which thread.
  std::uint64_t hash() const { return hash_; }
  std::uint64_t num_steps() const { return num_steps_; }

 private:
  class Thread; // a Background

  struct Node {
    std::string name;
    bool crashed = false;
    TimePoint paused_until{};
    std::vector<std::shared_ptr<Task>> tasks{};
  };
  struct Entry {
    TimePoint time;
    std::uint64_t
        order; // random, so that what is due at once comes in any order
    std::uint64_t number;
    std::shared_ptr<Task> task; // null: an event
    std::uint64_t sleep;        // of the task
    Event event;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const;
  };

  std::shared_ptr<Task> new_task(int node, std::function<void()> run);
  void schedule(const std::shared_ptr<Task>& task, TimePoint time);
  void push(Entry entry);
  Entry pop();
  bool is_void(const Entry& entry) const;
  void step_of(Entry entry);
  void resume(const std::shared_ptr<Task>& task);
  void suspend_current(TimePoint time);
  void add_line(const std::string& text);
  std::string waiting_text() const;
  void mix(std::uint64_t value);

  Stacks stacks_;
  Random random_;
  TimePoint now_{};
  std::vector<Node> nodes_;
  std::vector<Entry> heap_; // a priority queue
  Task* current_ = nullptr;
  std::exception_ptr failure_; // what a thread threw
  std::uint64_t num_entries_ = 0;
  std::uint64_t num_steps_ = 0;
  std::uint64_t hash_ = 0;
  bool keeps_trace_ = false;
  std::string trace_;
};

} // namespace argosy::testing
