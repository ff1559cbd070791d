// What fleet writes and reads of tables.

#include <filesystem>
#include <fstream>

#include "argosy/common/error.h"
#include "argosy/fleet/fleet.h"
#include "argosy/fleet/ps.h"
#include "argosy/fleet/ps_job.h"
#include "argosy/ps/worker/saved_tables.h"

namespace argosy::fleet {

namespace {

// The first worker acts; nobody goes on before it has. If it fails, all throw.
void on_first_worker(const char* name, const std::function<void()>& action) {
  const auto session = ps_session();
  session->flush();
  session->client().barrier(name);
  std::exception_ptr failure;
  std::string text;
  if (session->client().options().worker == 0) {
    try {
      action();
    } catch (const std::exception& error) {
      failure = std::current_exception();
      text = error.what();
    }
  }
  const std::string of_first = util().all_gather(text).front();
  if (failure) {
    std::rethrow_exception(failure);
  }
  if (!of_first.empty()) {
    throw CheckpointError(
        str_format("[fleet.{}] worker 0: {}", name, of_first));
  }
}

void save_tables(const std::string& folder, int mode) {
  const auto session = ps_session();
  session->client().save(
      folder, ps::save_mode(mode), -1, session->communicator().step());
  std::ofstream done(std::filesystem::path(folder) / "donefile", std::ios::app);
  done << "{\"mode\": " << mode
       << ", \"steps\": " << session->communicator().step() << "}\n";
  if (!done.flush()) {
    throw SystemError(str_format("[fleet.save] {}/donefile", folder));
  }
}

} // namespace

void save_persistables(const std::string& folder, int mode) {
  ps::save_mode(mode); // refuses others before anybody waits
  on_first_worker("save", [&] { save_tables(folder, mode); });
}

void save_inference_model(
    const std::string& folder, const torch::nn::Module& module, int mode) {
  ps::save_mode(mode);
  on_first_worker("save_inference_model", [&] {
    save_tables(folder, mode);
    ps::write_table_specs(ps_session()->client(), folder);
    ps::save_dense_weights(
        module, (std::filesystem::path(folder) / "model.pt").string());
  });
}

void load_model(const std::string& folder) {
  make_ps_models();
  on_first_worker("load_model", [&] { ps_session()->client().load(folder); });
  ps_session()->forget_rows();
  ps_session()->pull_dense();
}

void shrink() {
  on_first_worker("shrink", [] { ps_session()->client().shrink(); });
}

} // namespace argosy::fleet
