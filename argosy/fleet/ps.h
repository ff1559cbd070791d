#pragma once

#include <memory>
#include <string>

#include "argosy/ps/client/communicator.h"
#include "argosy/ps/service/log_options.h"
#include "argosy/ps/worker/session.h"

namespace torch::nn {
class Module;
}

// Jobs with parameter servers: what fleet.h has no names for. One program for
// all roles:
//
//   fleet::init(false);
//   if (fleet::is_server()) {
//     fleet::init_server();
//     fleet::run_server();
//   } else {
//     fleet::init_worker();
//     auto session = fleet::ps_session();
//     ... train ...
//     fleet::stop_worker();
//   }
namespace argosy::fleet {

// Both roles must have the same shape.
struct PsServerOptions {
  std::string load_folder{}; // tables begin with what save_persistables() wrote
  // Every table is on two servers: an update counts when both have it.
  bool replicated = false;
  ps::LogOptions log{};
  int regions_per_server = 1;
};

// init_worker() without options takes them from the strategy's a_sync and
// a_sync_configs.
struct PsWorkerOptions {
  ps::CommunicatorOptions communicator{};
  ps::DensePulls dense_pulls{};
  int regions_per_server = 1;
  bool launch_barrier = true; // wait for all workers, not for servers alone
};

// Makes this process's part of the tables. Does nothing in a job without
// servers but warn. Throws InvalidArgument on workers.
void init_server(const PsServerOptions& options = {});
void init_server(const std::string& load_folder);

// Serves until a worker calls stop_worker(). Blocks.
void run_server();

// Connects to the servers, if that has not been done: distributed_model() does
// it, too. init_worker() of fleet.h does it as the strategy says. Blocks until
// all workers have called it.
void init_worker(const PsWorkerOptions& options);

// MindSpore's set_param_ps(): when distributed_model() takes a model that has
// such parameters, these are on servers, and workers keep the others and
// average their gradients; it replaces the strategy's ps_configs.parameters.
// Does nothing in jobs without servers.
void set_param_ps(torch::nn::Module& module);
void set_param_ps(const at::Tensor& parameter);

// This worker's training. Throws InvalidArgument before init_worker().
std::shared_ptr<ps::Session> ps_session();

// Saves all tables as the mode (0 to 3: see ps::SaveMode) says, and then the
// file `donefile` with a line about it. All workers call it; the first one
// saves, beside the others' traffic.
void save_persistables(const std::string& folder, int mode = 0);

// The same, with the weights of `module` that are no tables in the file
// `model.pt`, and the tables' configurations: ps::load_inference_model() reads
// it into a plain model, ps::SavedTables the tables alone.
void save_inference_model(
    const std::string& folder, const torch::nn::Module& module, int mode = 0);

// Reads tables that were saved with any number of servers. All workers call it;
// blocks until the tables are there.
void load_model(const std::string& folder);

// Decays and removes rows of all tables, once a day. All workers call it.
void shrink();

} // namespace argosy::fleet
