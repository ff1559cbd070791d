// Calls between two processes of one host: how long one takes, how many a
// second are possible, and whether slow calls hold up fast ones. Beside gRPC,
// torch.distributed.rpc and Redis, and what the machine itself takes: a bare
// socket, two copies in memory.

#include <deque>
#include <filesystem>
#include <memory>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/rpc/endpoint.h"
#include "bench/harness.h"
#include "bench/redis_peer.h"
#include "bench/rpc_bare.h"
#include "bench/rpc_measure.h"
#include "bench/rpc_process.h"

namespace argosy::bench {
namespace {

using rpc::Bytes;
using rpc::Endpoint;
using rpc::Future;
using rpc::Message;

// Our caller and its callee in another process.
class Ours {
 public:
  Ours(const std::string& way, rpc::Transport transport)
      : callee_({RPC_SERVER, way}),
        caller_(
            {.name = "caller",
             .tcp_host = way == "tcp" ? "127.0.0.1" : "",
             .transport = transport}) {
    caller_.set_peers(
        {{"caller", caller_.address()}, {"callee", callee_.read_line()}});
  }

  double median(const char* method, std::size_t size, int count) {
    const auto data = std::make_shared<std::string>(size, 'x');
    return median_us(
        count, [&] { caller_.call_sync(1, method, payload(data)); });
  }

  double rate(std::size_t size, int count) {
    const auto data = std::make_shared<std::string>(size, 'x');
    std::deque<Future<Message>> futures;
    const double ms = milliseconds_of([&] {
      for (int i = 0; i < count; ++i) {
        futures.push_back(caller_.call(1, "echo", payload(data)));
        if (futures.size() == kInFlight) {
          futures.front().wait();
          futures.pop_front();
        }
      }
      for (auto& future : futures) {
        future.wait();
      }
    });
    return count / ms * 1e3;
  }

  double tail(int count, bool slow) {
    const auto data = std::make_shared<std::string>(64, 'x');
    std::vector<Future<Message>> slow_calls;
    const double p99 = p99_us(
        count,
        slow,
        [&] { caller_.call_sync(1, "echo", payload(data)); },
        [&] { slow_calls.push_back(caller_.call(1, "slow", {})); });
    for (auto& call : slow_calls) {
      call.wait();
    }
    return p99;
  }

 private:
  static Message payload(const std::shared_ptr<std::string>& data) {
    if (data->size() <= 64) {
      return {*data};
    }
    return {
        "",
        {{reinterpret_cast<const std::byte*>(data->data()),
          data->size(),
          data}}};
  }

  LineProcess callee_;
  Endpoint caller_;
};

// gRPC: a server and a caller, both processes.
struct Grpc {
  explicit Grpc(const std::string& socket)
      : server({RPC_GRPC, "serve", socket}),
        caller({RPC_GRPC, "call", socket}) {
    server.read_line();
  }
  LineProcess server;
  LineProcess caller;
};

struct Torch {
  explicit Torch(const std::string& file)
      : server({"/usr/bin/python3", RPC_TORCH, "1", file}),
        caller({"/usr/bin/python3", RPC_TORCH, "0", file}) {
    caller.read_line();
  }
  LineProcess server;
  LineProcess caller;
};

struct Size {
  const char* name;
  std::size_t bytes;
  int count;       // calls of ours in a turn
  int torch_count; // of torch's, which are slower
};

class Bench {
 public:
  explicit Bench(const Flags& flags)
      : rounds_(flags.quick ? 3 : 7), report_("rpc", flags) {}

  void run() {
    for (const Size& size :
         {Size{"64 B", 64, 3000, 300}, Size{"64 KB", 65536, 1000, 200}}) {
      round_trip("shared memory", memory_, size);
      round_trip("Unix socket", unix_, size);
      round_trip("TCP", tcp_, size);
    }
    one_way(Size{"1 MB", 1 << 20, 200, 50});
    rate();
    tail();
    report_.finish();
  }

 private:
  std::string path(const char* name) { return (dir_.path() / name).string(); }

  void round_trip(const char* way, Ours& ours, const Size& size) {
    const std::string line = str("echo ", size.bytes, " ");
    report_.add(race(
        str("call and reply of ", size.name, ", ", way),
        "us",
        Better::Lower,
        rounds_,
        {{"ours", [&] { return ours.median("echo", size.bytes, size.count); }},
         {"gRPC", [&] { return grpc_.caller.ask(str(line, size.count)); }},
         {"torch",
          [&] { return torch_.caller.ask(str(line, size.torch_count)); }},
         {"Redis", [&] { return redis_.echo_us(size.bytes, size.count); }},
         {"bare socket",
          [&] { return bare_socket_us(size.bytes, size.count); }}}));
  }

  void one_way(const Size& size) {
    const std::string line = str("sink ", size.bytes, " ");
    const auto others = std::vector<Contestant>{
        {"gRPC", [&] { return grpc_.caller.ask(str(line, size.count)); }},
        {"torch",
         [&] { return torch_.caller.ask(str(line, size.torch_count)); }},
        {"Redis", [&] { return redis_.set_us(size.bytes, size.count); }},
        {"two copies", [&] { return two_copies_us(size.bytes, size.count); }}};
    for (const auto& [way, ours] :
         {std::pair<const char*, Ours*>{"shared memory", &memory_},
          {"Unix socket", &unix_}}) {
      std::vector<Contestant> all{{"ours", [&, ours = ours] {
                                     return ours->median(
                                         "sink", size.bytes, size.count);
                                   }}};
      all.insert(all.end(), others.begin(), others.end());
      report_.add(race(
          str("call with ", size.name, ", empty reply, ", way),
          "us",
          Better::Lower,
          rounds_,
          all));
    }
  }

  void rate() {
    constexpr int kCalls = 200000;
    constexpr int kSlowPeersCalls = 20000;
    report_.add(race(
        str("calls of 64 B with ", kInFlight, " in flight, shared memory"),
        "calls/s",
        Better::Higher,
        rounds_,
        {{"ours", [&] { return memory_.rate(64, kCalls); }},
         {"gRPC",
          [&] { return grpc_.caller.ask(str("rate 64 ", kSlowPeersCalls)); }},
         {"torch", [&] { return torch_.caller.ask("rate 64 1500"); }},
         {"Redis", [&] { return redis_.pipelined_rate(64, kCalls); }}}));
  }

  void tail() {
    for (const bool slow : {false, true}) {
      const int flag = slow ? 1 : 0;
      report_.add(race(
          slow ? "p99 of fast calls while 1 % take 5 ms, shared memory"
               : "p99 of fast calls alone, shared memory",
          "us",
          Better::Lower,
          rounds_,
          {{"ours", [&] { return memory_.tail(10000, slow); }},
           {"gRPC", [&] { return grpc_.caller.ask(str("tail 3000 ", flag)); }},
           {"torch", [&] { return torch_.caller.ask(str("tail 600 ", flag)); }},
           {"bare memory", [&] { return bare_memory_p99_us(10000, slow); }}}));
    }
  }

  const TempDir dir_{"argosy-bench"};
  const int rounds_;
  Report report_;
  Ours memory_{"memory", rpc::Transport::SharedMemory};
  Ours unix_{"unix", rpc::Transport::Unix};
  Ours tcp_{"tcp", rpc::Transport::Tcp};
  Grpc grpc_{path("grpc")};
  Torch torch_{path("torch")};
  RedisPeer redis_{path("redis")};
};

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  argosy::bench::Bench(argosy::bench::parse_flags(argc, argv)).run();
}
