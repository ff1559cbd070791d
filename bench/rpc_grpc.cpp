// gRPC beside bench/rpc.cpp, plainly used: a synchronous server, a stub, a Unix
// socket. usage: rpc_grpc serve SOCKET | rpc_grpc call SOCKET
// A caller reads lines "echo|sink SIZE COUNT", "rate SIZE COUNT" or
// "tail COUNT 0|1", and answers each with a number.

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "bench/rpc_echo.grpc.pb.h"
#include "bench/rpc_measure.h"

namespace argosy::bench {
namespace {

class Service final : public Peer::Service {
  grpc::Status Echo(
      grpc::ServerContext*, const Payload* request, Payload* reply) override {
    reply->set_data(request->data());
    return grpc::Status::OK;
  }
  grpc::Status Sink(grpc::ServerContext*, const Payload*, Payload*) override {
    return grpc::Status::OK;
  }
  grpc::Status Slow(grpc::ServerContext*, const Payload*, Payload*) override {
    std::this_thread::sleep_for(kSlowCall);
    return grpc::Status::OK;
  }
};

void serve(const std::string& socket) {
  Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  std::cout << "ready" << std::endl;
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

class Caller {
 public:
  explicit Caller(const std::string& socket) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = Peer::NewStub(grpc::CreateCustomChannel(
        "unix:" + socket, grpc::InsecureChannelCredentials(), arguments));
  }

  double answer(const std::string& what, std::istream& line) {
    int size = 0;
    int count = 0;
    line >> size >> count;
    if (what == "tail") {
      return tail(size, count != 0);
    }
    Payload request;
    request.set_data(std::string(static_cast<std::size_t>(size), 'x'));
    if (what == "rate") {
      return rate(request, count);
    }
    return median_us(count, [&] { call(request, what == "sink"); });
  }

 private:
  void call(const Payload& request, bool sink) {
    grpc::ClientContext context;
    Payload reply;
    check(
        sink ? stub_->Sink(&context, request, &reply)
             : stub_->Echo(&context, request, &reply));
  }

  static void check(const grpc::Status& status) {
    if (!status.ok()) {
      std::cerr << status.error_message() << std::endl;
      std::exit(1);
    }
  }

  // A call in flight.
  struct Open {
    grpc::ClientContext context;
    Payload reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Payload>> reader;
  };

  double rate(const Payload& request, int count) {
    grpc::CompletionQueue queue;
    const auto start = [&] {
      auto* open = new Open;
      open->reader = stub_->AsyncEcho(&open->context, request, &queue);
      open->reader->Finish(&open->reply, &open->status, open);
    };
    const auto began = std::chrono::steady_clock::now();
    int started = 0;
    for (; started < std::min(count, kInFlight); ++started) {
      start();
    }
    void* tag = nullptr;
    bool ok = false;
    for (int ended = 0; ended < count && queue.Next(&tag, &ok); ++ended) {
      const std::unique_ptr<Open> open(static_cast<Open*>(tag));
      check(open->status);
      if (started < count) {
        start();
        ++started;
      }
    }
    const std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - began;
    return count / passed.count();
  }

  double tail(int count, bool slow) {
    Payload request;
    request.set_data(std::string(64, 'x'));
    std::vector<std::future<void>> slow_calls;
    return p99_us(
        count,
        slow,
        [&] { call(request, false); },
        [&] {
          slow_calls.push_back(std::async(std::launch::async, [this] {
            grpc::ClientContext context;
            Payload reply;
            check(stub_->Slow(&context, {}, &reply));
          }));
        });
  }

  std::unique_ptr<Peer::Stub> stub_;
};

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  if (mode == "serve") {
    argosy::bench::serve(argv[2]);
    return 0;
  }
  if (mode != "call") {
    std::cerr << "usage: rpc_grpc serve|call SOCKET" << std::endl;
    return 2;
  }
  argosy::bench::Caller caller(argv[2]);
  std::string what;
  while (std::cin >> what) {
    std::cout << caller.answer(what, std::cin) << std::endl;
  }
}
