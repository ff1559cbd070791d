// A rank of the bench of checkpoints: saves and loads a sharded state, beside
// what disk, page cache and memory give alone with the same bytes.
//
//   argosy run -n 2 checkpoint_rank save|load|cold FOLDER MEGABYTES ROUNDS
//
// prints from rank 0 a line "NAME SECONDS BYTES" for each measurement.

#include <fcntl.h>
#include <sys/mman.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <span>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/hash.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/world/init.h"
#include "argosy/world/record.h"

namespace {

using namespace argosy;

constexpr std::size_t kBuffer = std::size_t{8} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

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

// Of huge pages, with which direct reads and writes are fastest.
struct Buffer {
  Buffer()
      : memory(
            static_cast<char*>(std::aligned_alloc(kHugePage, kBuffer)),
            &std::free) {
    ::madvise(memory.get(), kBuffer, MADV_HUGEPAGE);
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

// This rank's bytes into a new file of its own, past the page cache, synced.
void write_raw(
    const std::string& path, std::int64_t bytes, const Buffer& from) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_DIRECT, 0644);
  check(fd >= 0, "open");
  check(::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0, "fallocate");
  for (std::int64_t done = 0; done < bytes; done += kBuffer) {
    check(
        ::write(fd, from.memory.get(), kBuffer) ==
            static_cast<ssize_t>(kBuffer),
        "write");
  }
  check(::fsync(fd) == 0, "fsync");
  ::close(fd);
}

// Reads a file through memory that stays in the core's cache and hashes it: all
// that verifying it before it is used needs.
void verify_raw(const std::string& path, std::int64_t bytes, Buffer& buffer) {
  constexpr std::size_t kSlice = std::size_t{256} << 10;
  const int fd = ::open(path.c_str(), O_RDONLY);
  check(fd >= 0, "open");
  checkpoint::BytesHash hash;
  for (std::int64_t done = 0; done < bytes; done += kSlice) {
    char* const memory = buffer.memory.get();
    check(::read(fd, memory, kSlice) == static_cast<ssize_t>(kSlice), "read");
    hash.add(std::as_bytes(std::span(memory, kSlice)));
  }
  ::close(fd);
  check(hash.result() != checkpoint::Hash128(), "hash");
}

// Takes the files of a folder, which are on the disk, out of the page cache, or
// brings them there.
void set_cached(const std::string& folder, bool cached) {
  for (const auto& each :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (each.is_regular_file()) {
      const int fd = ::open(each.path().c_str(), O_RDONLY);
      check(fd >= 0, "open");
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      std::vector<char> some(cached ? kBuffer : 0);
      while (cached && ::read(fd, some.data(), some.size()) > 0) {
      }
      ::close(fd);
    }
  }
}

// Past the page cache, one buffer after the other.
void read_direct(const std::string& path, std::int64_t bytes, Buffer& into) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECT);
  check(fd >= 0, "open");
  for (std::int64_t done = 0; done < bytes; done += kBuffer) {
    check(
        ::read(fd, into.memory.get(), kBuffer) == static_cast<ssize_t>(kBuffer),
        "read");
  }
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

// What was written and removed before is not the next one's.
void settle() {
  barrier();
  if (get_rank() == 0) {
    ::sync();
  }
  barrier();
}

// Saves to a folder of its own, of which the last checkpoint stays. Removing
// the one before is not measured.
class Saves {
 public:
  Saves(std::string folder, checkpoint::CheckpointOptions options)
      : folder_(std::move(folder)), saver_(folder_, std::move(options)) {}

  void run(const char* name, checkpoint::State& state, std::int64_t bytes) {
    settle();
    print(name, seconds([&] { saver_.save(state, step_); }), bytes);
  }
  void end() {
    saver_.wait();
    barrier();
    if (get_rank() == 0 && step_ > 0) {
      std::filesystem::remove_all(
          folder_ + '/' + checkpoint::folder_name(step_ - 1));
    }
    ++step_;
  }

 private:
  const std::string folder_;
  checkpoint::Checkpointer saver_;
  std::int64_t step_ = 0;
};

void save_rounds(
    const std::string& folder, std::int64_t megabytes, int rounds) {
  Net net(megabytes);
  checkpoint::State state;
  state.add("model", net);
  const std::int64_t bytes = megabytes << 20;
  const std::int64_t own = bytes / get_world_size();
  const Buffer buffer;
  const std::string raw = str(folder, "/raw", get_rank());
  Saves synced(folder + "/sync", {});
  Saves async(folder + "/async", {.async = true});
  torch::optim::SGD optimizer(net.parameters(), 1e-6);
  const auto step = [&] { train_step(net, optimizer); };
  std::vector<char> copy(own, 1);
  std::vector<char> source(own, 2);
  for (int i = 0; i < rounds; ++i) {
    std::filesystem::remove(raw);
    settle();
    print("disk", seconds([&] { write_raw(raw, own, buffer); }), bytes);
    synced.run("save", state, bytes);
    synced.end();
    print(
        "memcpy",
        seconds([&] { std::memcpy(copy.data(), source.data(), own); }),
        bytes);
    print("step", seconds(step), bytes);
    async.run("stall", state, bytes);
    print("step_beside", seconds(step), bytes);
    async.end();
  }
}

// Reads what save_rounds() has left, again and again: from the page cache.
struct Loads {
  Loads(const std::string& its_folder, std::int64_t megabytes)
      : folder(its_folder),
        net(megabytes),
        bytes(megabytes << 20),
        memory(bytes / get_world_size(), 1) {
    state.add("model", net);
  }

  void run(const std::string& name, bool verify_first) {
    print(
        name,
        seconds([&] {
          checkpoint::load(
              folder + "/sync",
              state,
              {.strict = false, .verify_first = verify_first});
        }),
        bytes);
  }
  void run_raw(const std::string& name) {
    print(name, seconds([&] { read_raw(raw, memory); }), bytes);
  }

  const std::string folder;
  Net net;
  checkpoint::State state;
  const std::int64_t bytes;
  std::vector<char> memory;
  const std::string raw = str(folder, "/raw", get_rank());
};

void load_rounds(
    const std::string& folder, std::int64_t megabytes, int rounds) {
  Loads loads(folder, megabytes);
  // Not of another number of ranks.
  const bool has_raw = std::filesystem::exists(loads.raw) &&
      std::filesystem::file_size(loads.raw) == loads.memory.size();
  Buffer buffer;
  if (get_rank() == 0) {
    set_cached(folder, true);
  }
  for (int i = 0; i < rounds; ++i) {
    if (has_raw) {
      loads.run_raw("cache");
      print(
          "verify",
          seconds([&] {
            verify_raw(
                loads.raw,
                static_cast<std::int64_t>(loads.memory.size()),
                buffer);
          }),
          loads.bytes);
    }
    loads.run("load", true);
    loads.run("load_in_place", false);
  }
}

// From the disk.
void cold_rounds(
    const std::string& folder, std::int64_t megabytes, int rounds) {
  Loads loads(folder, megabytes);
  const auto prepare = [&] {
    barrier();
    set_cached(folder, false);
    barrier();
  };
  Buffer buffer;
  for (int i = 0; i < rounds; ++i) {
    print(
        "cold",
        seconds([&] {
          read_direct(
              loads.raw,
              static_cast<std::int64_t>(loads.memory.size()),
              buffer);
        }),
        loads.bytes);
    prepare();
    loads.run_raw("cold_buffered");
    prepare();
    loads.run("cold_load", true);
    prepare();
    loads.run("cold_load_in_place", false);
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
    const auto run = args.at(0) == "save" ? save_rounds
        : args.at(0) == "load"            ? load_rounds
                                          : cold_rounds;
    run(args.at(1), megabytes, rounds);
    destroy_process_group();
  });
}
