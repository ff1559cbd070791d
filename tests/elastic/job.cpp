// A rank of an elastic job that kills itself where the test says, and writes
// all that it ended with.
//
//   elastic_job FOLDER KILLS: KILLS are "RANK.LIFE.STEP" with commas between
//   them, or "-"; a LIFE of "all" is each. "timeout": nobody is killed, but
//   rank 1 waits in vain for the batch of step 3

#include <torch/torch.h>

#include <csignal>
#include <sstream>

#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/state.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/data/sampler.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/elastic/job.h"
#include "argosy/world/init.h"
#include "argosy/world/record.h"

namespace argosy::testing {
namespace {

constexpr int kSteps = 6;
constexpr int kFeatures = 12;

// Everything that a step may change: running statistics, random numbers.
struct NetImpl : torch::nn::Module {
  NetImpl() { register_module("body", body); }
  at::Tensor forward(const at::Tensor& x) { return body->forward(x); }

  torch::nn::Sequential body{
      torch::nn::Linear(kFeatures, 32),
      torch::nn::BatchNorm1d(32),
      torch::nn::ReLU(),
      torch::nn::Dropout(0.3),
      torch::nn::Linear(32, 1)};
};
TORCH_MODULE(Net);

bool dies_now(const std::string& kills, int rank, std::int64_t step) {
  const std::string life =
      Environment::of_process().get("ARGOSY_WORKER_RESTARTS", "0");
  for (const std::string& kill : split(kills, ',')) {
    const auto parts = split(kill, '.');
    if (parts.size() == 3 && parts[0] == str(rank) &&
        (parts[1] == life || parts[1] == "all") && parts[2] == str(step)) {
      return true;
    }
  }
  return false;
}

at::Tensor features(const std::vector<std::int64_t>& indices) {
  std::vector<at::Tensor> rows;
  for (const std::int64_t index : indices) {
    rows.push_back(
        ((torch::arange(kFeatures) * 7 + 13 * index) % 17 - 8)
            .to(torch::kFloat) /
        8);
  }
  return torch::stack(rows);
}

std::string hash_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  return checkpoint::to_hex(checkpoint::hash_bytes(std::as_bytes(
      std::span(static_cast<const char*>(dense.data_ptr()), dense.nbytes()))));
}

// What must be as in the run in which nobody died.
std::string ending_of(
    Net& net,
    torch::optim::Adam& adam,
    const std::vector<std::int64_t>& used,
    double loss_sum) {
  std::ostringstream out;
  for (const auto& item : net->named_parameters()) {
    const auto& states = adam.state();
    const auto found =
        states.find(c10::guts::to_string(item.value().unsafeGetTensorImpl()));
    out << item.key() << " " << hash_of(item.value()) << " "
        << (found == states.end()
                ? ""
                : hash_of(
                      static_cast<torch::optim::AdamParamState&>(*found->second)
                          .exp_avg_sq()))
        << "\n";
  }
  for (const auto& item : net->named_buffers()) {
    out << item.key() << " " << hash_of(item.value()) << "\n";
  }
  out << "samples";
  for (const std::int64_t index : used) {
    out << " " << index;
  }
  out << "\nlosses " << std::hexfloat << loss_sum << "\nrandom "
      << hash_of(torch::rand({4})) << "\n";
  return out.str();
}

void train(const std::filesystem::path& folder, const std::string& kills) {
  const int rank = get_rank();
  const int size = get_world_size();
  torch::manual_seed(100 + rank);
  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
  data::DistributedBatchSampler sampler(
      std::int64_t{8} * size,
      {.batch_size = 3, .num_replicas = size, .rank = rank, .shuffle = true});
  std::vector<std::int64_t> used;
  double loss_sum = 0;
  checkpoint::State state{net, adam, sampler};
  state.add_of_rank("used", used).add_of_rank("losses", loss_sum);
  elastic::run(
      state,
      {.replacement_timeout = std::chrono::seconds(20)},
      [&](elastic::Job& job) {
        DataParallel model(net);
        job.train(
            kSteps,
            [&] {
              auto batch = sampler.next();
              if (!batch) {
                batch = sampler.next();
              }
              used.insert(
                  used.end(), batch->indices.begin(), batch->indices.end());
              if (dies_now(kills, rank, job.step() + 1)) {
                ::kill(::getpid(), SIGKILL);
              }
              if (kills == "timeout" && rank == 1 && job.step() == 2) {
                throw TimeoutError("no batch came");
              }
              model.zero_grad();
              const at::Tensor x = features(batch->indices);
              const at::Tensor loss =
                  torch::mse_loss(model(x), x.sum(1, true).sin());
              loss_sum += loss.item<double>();
              loss.backward();
            },
            [&] { adam.step(); });
      });
  write_file(folder / str("end.", rank), ending_of(net, adam, used, loss_sum));
}

} // namespace
} // namespace argosy::testing

int main(int /*argc*/, char** argv) {
  return argosy::record([&] { argosy::testing::train(argv[1], argv[2]); });
}
