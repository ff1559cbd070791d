#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/fleet/fleet.h"
#include "argosy/fleet/ps.h"
#include "argosy/store/kv_server.h"

namespace argosy::fleet {

// The servers and workers of a job as threads of a test, each with a fleet of
// its own.
struct PsThreads {
  int num_servers = 2;
  int num_workers = 2;
  DistributedStrategy strategy{};
  PsServerOptions server{};
  std::function<void()> server_init{}; // before a server serves
  std::function<void()> server_done{}; // after it has

  // Runs `work` on every worker between fleet::init() and stop_worker().
  void run(const std::function<void(int worker)>& work) const;
};

class PsThreadsRun {
 public:
  explicit PsThreadsRun(const PsThreads& job) : job_(job) {}

  void run(const std::function<void(int worker)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < job_.num_servers; ++i) {
      threads.emplace_back([&, i] { guard([&] { serve(i); }); });
    }
    for (int i = 0; i < job_.num_workers; ++i) {
      threads.emplace_back([&, i] {
        guard([&] {
          init(Role::Worker, i, job_.num_workers);
          work(i);
          fleet::stop_worker();
        });
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_TRUE(failures_.empty()) << failures_;
  }

 private:
  void init(Role role, int rank, int size) {
    LaunchInfo info;
    info.role = role;
    info.rank = rank;
    info.size = size;
    info.local_rank = rank;
    info.local_size = size;
    info.num_workers = job_.num_workers;
    info.num_servers = job_.num_servers;
    info.store_url = str("tcp://127.0.0.1:", store_.port());
    fleet::init(
        JobRole(false, info),
        job_.strategy,
        {.timeout = std::chrono::seconds(20)});
  }

  void serve(int index) {
    init(Role::Server, index, job_.num_servers);
    if (job_.server_init) {
      job_.server_init();
    }
    fleet::init_server(job_.server);
    fleet::run_server();
    if (job_.server_done) {
      job_.server_done();
    }
  }

  void guard(const std::function<void()>& body) {
    try {
      body();
      destroy_process_group();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failures_ += str(error.what(), '\n');
    }
  }

  const PsThreads& job_;
  store::KvServer store_{{"127.0.0.1", 0}};
  std::mutex mutex_;
  std::string failures_;
};

inline void PsThreads::run(const std::function<void(int worker)>& work) const {
  PsThreadsRun(*this).run(work);
}

} // namespace argosy::fleet
