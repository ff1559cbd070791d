// A rank of the bench of checkpoints: saves and loads a sharded state, beside
// what disk, page cache and memory give alone with the same bytes.
//
//   argosy run -n 2 checkpoint_rank MODE FOLDER MEGABYTES
//
// prints from rank 0 a line "NAME SECONDS BYTES" for each measurement.

#include <fcntl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/world/init.h"
#include "argosy/world/record.h"

namespace {

using namespace argosy;

constexpr std::size_t kBuffer = std::size_t{8} << 20;

// The slowest rank's time.
double seconds(const std::function<void()>& action) {
  barrier();
  const auto begin = std::chrono::steady_clock::now();
  action();
  at::Tensor time = torch::tensor(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count(),
      torch::kDouble);
  all_reduce(time, ReduceOp::MAX);
  return time.item<double>();
}

void print(const std::string& name, double time, std::int64_t bytes) {
  if (get_rank() == 0) {
    std::cout << name << ' ' << time << ' ' << bytes << std::endl;
  }
}

// Tensors of 16 MB, cut over all ranks, as ZeRO 3 has them.
struct Net : torch::nn::Module {
  explicit Net(std::int64_t megabytes) {
    const auto mesh = ProcessMesh::of_shape({get_world_size()}, {"sharding"});
    for (std::int64_t i = 0; i < megabytes / 16; ++i) {
      register_parameter(
          str("p", i),
          dtensor_from_fn(
              [&] {
                return torch::full({2048, 2048}, 0.5 + i);
              },
              mesh,
              {Shard(0)}));
    }
  }
};

struct Buffer {
  Buffer()
      : memory(
            static_cast<char*>(std::aligned_alloc(4096, kBuffer)), &std::free) {
    std::memset(memory.get(), 1, kBuffer);
  }
  std::unique_ptr<char, void (*)(void*)> memory;
};

void check(bool ok, const char* what) {
  if (!ok) {
    throw SystemError(
        std::string("[bench] ") + what + ": " + std::strerror(errno));
  }
}

// This rank's bytes into a file of its own, past the page cache, synced.
void write_raw(
    const std::string& path, std::int64_t bytes, const Buffer& from) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0644);
  check(fd >= 0, "open");
  for (std::int64_t done = 0; done < bytes; done += kBuffer) {
    check(
        ::write(fd, from.memory.get(), kBuffer) ==
            static_cast<ssize_t>(kBuffer),
        "write");
  }
  check(::fsync(fd) == 0, "fsync");
  ::close(fd);
}

// Into memory of the size of the file, as a load does.
void read_raw(const std::string& path, std::vector<char>& into) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  check(fd >= 0, "open");
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t count =
        ::read(fd, into.data() + done, std::min(kBuffer, into.size() - done));
    check(count > 0, "read");
    done += static_cast<std::size_t>(count);
  }
  ::close(fd);
}

// A step that goes over all parameters, as training does.
void train_step(Net& net, torch::optim::SGD& optimizer) {
  at::Tensor loss;
  for (const at::Tensor& each : net.parameters()) {
    const at::Tensor part = each.square().sum();
    loss = loss.defined() ? loss + part : part;
  }
  loss.backward();
  optimizer.step();
  optimizer.zero_grad();
}

void save_rounds(
    const std::string& folder, std::int64_t megabytes, int rounds) {
  Net net(megabytes);
  checkpoint::State state;
  state.add("model", net);
  const std::int64_t bytes = megabytes << 20;
  const std::int64_t own = bytes / get_world_size();
  const Buffer buffer;
  const std::string raw = str(folder, "/raw", get_rank());
  checkpoint::Checkpointer saver(folder + "/sync", {.keep = {.last = 1}});
  checkpoint::Checkpointer async(
      folder + "/async", {.async = true, .keep = {.last = 1}});
  torch::optim::SGD optimizer(net.parameters(), 1e-6);
  const auto step = [&] { train_step(net, optimizer); };
  std::vector<char> copy(own, 1);
  std::vector<char> source(own, 2);
  for (int i = 0; i < rounds; ++i) {
    print("disk", seconds([&] { write_raw(raw, own, buffer); }), bytes);
    print("save", seconds([&] { saver.save(state, i); }), bytes);
    print(
        "memcpy",
        seconds([&] { std::memcpy(copy.data(), source.data(), own); }),
        bytes);
    print("step", seconds(step), bytes);
    print("stall", seconds([&] { async.save(state, i); }), bytes);
    print("step_beside", seconds(step), bytes);
    async.wait();
  }
}

void load_rounds(
    const std::string& folder, std::int64_t megabytes, int rounds) {
  Net net(megabytes);
  checkpoint::State state;
  state.add("model", net);
  const std::int64_t bytes = megabytes << 20;
  std::vector<char> memory(bytes / get_world_size(), 1);
  const std::string raw = str(folder, "/raw", get_rank());
  // Not of another number of ranks.
  const bool has_raw = std::filesystem::exists(raw) &&
      std::filesystem::file_size(raw) == memory.size();
  // Files were written past the page cache: the first round reads the disk.
  for (int i = 0; i < rounds + 1; ++i) {
    if (has_raw) {
      print(
          i == 0 ? "cold" : "cache",
          seconds([&] { read_raw(raw, memory); }),
          bytes);
    }
    print(
        i == 0 ? "first" : "load",
        seconds([&] {
          checkpoint::load(folder + "/sync", state, {.strict = false});
        }),
        bytes);
    print(
        i == 0 ? "first_in_place" : "load_in_place",
        seconds([&] {
          checkpoint::load(
              folder + (i == 0 ? "/async" : "/sync"), // not yet in the cache
              state,
              {.strict = false, .verify_first = false});
        }),
        bytes);
  }
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  return record([&] {
    init_parallel_env();
    torch::set_num_threads(1);
    const std::int64_t megabytes = std::stoll(args.at(2));
    const int rounds = std::stoi(args.at(3));
    args.at(0) == "save" ? save_rounds(args.at(1), megabytes, rounds)
                         : load_rounds(args.at(1), megabytes, rounds);
    destroy_process_group();
  });
}
