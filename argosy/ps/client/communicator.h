#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "argosy/ps/client/client.h"

namespace argosy::ps {

// When gradients reach the servers.
enum class Mode {
  Sync,      // each step; a step of all workers is applied at once
  Async,     // in the background, as they come; nobody waits for anybody
  HalfAsync, // each step of this worker's threads; workers do not wait
  Geo,       // workers train on their own and exchange differences
};

std::string_view to_string(Mode mode);

// The strategy's a_sync_configs, and what the launcher says.
struct CommunicatorOptions {
  Mode mode = Mode::Sync;
  int send_queue_size = 20;   // batches of gradients that may wait (Async)
  int max_merge_var_num = 20; // batches that one message may carry (Async)
  int num_threads = 1;        // of this worker (HalfAsync)
  int k_steps = 100;          // between two exchanges (Geo)
};

// Throws InvalidArgument, naming the setting.
void check(const CommunicatorOptions& options);

// One batch's gradients, as push() takes them; keys do not repeat.
struct Gradients {
  struct Sparse {
    std::uint32_t table = 0;
    std::vector<std::uint64_t> keys{};
    std::vector<float> records{};
  };
  struct Dense {
    std::uint32_t table = 0;
    std::vector<float> gradient{};
  };
  std::vector<Sparse> sparse{};
  std::vector<Dense> dense{};
};

// Adds the gradients of `batch` to `sum`: records of one key are added up; of
// slots the last one stays.
void merge(Gradients& sum, const Gradients& batch, const Client& client);

// Brings gradients to the servers as the mode says. Thread-safe.
class Communicator {
 public:
  // `client` must outlive it. The job of the client must fit the mode.
  Communicator(Client& client, CommunicatorOptions options);
  // Sends nothing more: see stop().
  ~Communicator();

  const CommunicatorOptions& options() const { return options_; }
  Client& client() const { return client_; }

  // The step whose rows the next pull must see: -1 unless synchronous.
  std::int64_t step() const;
  // Goes on at a step, after a restart (Sync).
  void set_step(std::int64_t step);

  // The gradients of one batch, which ends with it.
  //   Sync       returns when the servers have them
  //   Async      returns at once, or when the queue has room
  //   HalfAsync  returns when the servers have those of all threads; throws
  //              TimeoutError, saying how many have come
  // Throws what the servers refused before.
  void push(Gradients gradients);

  // Blocks until the servers have everything.
  void flush();
  // The same, and ends the thread.
  void stop();

  // Batches of this worker that servers have not acknowledged: now, and the
  // most there were. In Async they are at most max_staleness_bound().
  int staleness() const;
  int max_staleness() const;
  int max_staleness_bound() const;

 private:
  // The batches of this worker's threads that are sent together (HalfAsync).
  struct Round {
    Gradients sum{};
    int arrived = 0;
    bool sent = false;
    std::exception_ptr failure{};
  };

  void send_now(const Gradients& gradients, std::int64_t step);
  std::exception_ptr try_to_send(const Gradients& gradients);
  void push_half_async(Gradients gradients);
  void await_round(std::unique_lock<std::mutex>& lock, const Round& round);
  void push_async(Gradients gradients);
  void send_in_background();
  void rethrow_failure();
  void count(int change);

  Client& client_;
  const CommunicatorOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::int64_t step_ = 0;
  std::deque<Gradients> queue_;
  int unsent_ = 0; // batches that are in the queue or under way
  int staleness_ = 0;
  int max_staleness_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::shared_ptr<Round> round_ = std::make_shared<Round>();

  std::thread sender_; // Async
};

} // namespace argosy::ps
