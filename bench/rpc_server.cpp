// The callee of bench/rpc.cpp: prints its address and serves until its input
// ends. usage: rpc_server memory|unix|tcp

#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <thread>

#include "argosy/rpc/endpoint.h"
#include "bench/rpc_measure.h"

int main(int argc, char** argv) {
  using namespace argosy::rpc;
  const std::string_view way = argc > 1 ? argv[1] : "memory";
  Endpoint endpoint(
      {.name = "callee",
       .id = 1,
       .tcp_host = way == "tcp" ? "127.0.0.1" : "",
       .transport = way == "memory" ? Transport::SharedMemory
           : way == "unix"          ? Transport::Unix
                                    : Transport::Tcp});
  const auto echo = [](IncomingCall call) {
    Message request = call.take_request();
    std::move(call).reply(std::move(request));
  };
  const auto sink = [](IncomingCall call) { std::move(call).reply({}); };
  endpoint.serve("echo", echo, {.inline_ = true});
  endpoint.serve("sink", sink, {.inline_ = true});
  endpoint.serve("pool", echo);
  endpoint.serve("slow", [](IncomingCall call) {
    std::this_thread::sleep_for(argosy::bench::kSlowCall);
    std::move(call).reply({});
  });
  std::printf("%s\n", endpoint.address().c_str());
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}
