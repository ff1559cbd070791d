#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "argosy/rpc/arguments.h"
#include "argosy/rpc/endpoint.h"

// Functions of other workers, called by name. A worker is a rank with a name.
//
// A function is registered under a name on the worker that runs it, with types
// that have a Codec (argosy/comm/codec.h) or are tensors. The caller gives the
// result's type; arguments must have exactly the function's types. Both sides
// check that, and say what they expect.
//
// All functions act for the calling thread's world. They throw InvalidArgument
// if it has none, or before init_rpc().
namespace argosy::rpc {

struct RpcOptions {
  // The fastest way between workers that is used; alike on all ranks.
  Transport transport = Transport::SharedMemory;
  std::size_t threads = 64; // for functions of this worker, at most
  Limits limits{};
};

struct WorkerInfo {
  std::string name;
  int rank = -1;
  std::string ip;      // "127.0.0.1" if all workers are on one host
  int port = 0;        // 0 if it does not listen for TCP
  std::string address; // all ways to it

  bool operator==(const WorkerInfo&) const = default;
};

// Makes this rank a worker that calls and is called. All ranks must call it,
// each with a name of its own; blocks until all have. If the thread has no
// world, makes one as init_parallel_env() does. Throws InvalidArgument, on all
// ranks, when two have the same name.
void init_rpc(const std::string& name, const RpcOptions& options = {});

// Ends it: waits until all ranks have called it, so that calls of others are
// still answered, at most until `timeout` (0: the world's). Throws TimeoutError
// that names ranks that did not come; RPC is ended then, too. Ranks whose
// process has ended are not waited for. Afterwards init_rpc() may be called
// again.
void shutdown(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

// Throws InvalidArgument for an unknown name.
WorkerInfo get_worker_info(const std::string& name);
std::vector<WorkerInfo> get_all_worker_infos(); // by rank
WorkerInfo get_current_worker_info();

struct CallSettings {
  std::chrono::milliseconds timeout = std::chrono::milliseconds(0); // 0: 500 s
  bool exactly_once = false; // see CallOptions
};

// Whom to call, and how.
struct To {
  To(std::string worker, CallSettings call_settings = {})
      : name(std::move(worker)), settings(call_settings) {}
  To(const char* worker, CallSettings call_settings = {})
      : name(worker), settings(call_settings) {}

  std::string name;
  CallSettings settings;
};

namespace detail {

// `needs_world`: the handler runs as this rank.
void add_function(
    const std::string& name, Handler handler, ServeOptions options);
Message call_sync(const To& to, const std::string& function, Message message);
Future<Message> call_async(
    const To& to, const std::string& function, Message message);
Future<std::vector<Result<Message>>> call_all(
    const std::vector<std::string>& workers,
    CallSettings settings,
    const std::string& function,
    const Message& message);

template <typename R, typename... Args>
Handler typed_handler(std::function<R(Args...)> function) {
  return [function = std::move(function)](IncomingCall call) {
    Message reply;
    {
      const Message request = call.take_request();
      Unpacker unpacker(request);
      check_signature(unpacker, signature<R, Args...>());
      auto arguments = unpack_arguments<Args...>(unpacker);
      if constexpr (std::is_void_v<R>) {
        std::apply(function, std::move(arguments));
      } else {
        Packed<Plain<R>>::pack(
            std::apply(function, std::move(arguments)), reply);
      }
    }
    std::move(call).reply(std::move(reply));
  };
}

template <typename R>
using Value = std::conditional_t<std::is_void_v<R>, std::monostate, Plain<R>>;

template <typename R>
Value<R> result_of(const Message& message) {
  if constexpr (std::is_void_v<R>) {
    return {};
  } else {
    return unpack_result<Value<R>>(message);
  }
}

} // namespace detail

// Lets others call `function`, a function or lambda, on this rank: at once if
// init_rpc() has been called, else from then on. It runs on a thread of its own
// that acts as this rank; what it throws reaches the caller as RemoteError.
// Throws InvalidArgument if the name is taken.
template <typename F>
void register_function(
    const std::string& name, F function, ServeOptions options = {}) {
  detail::add_function(
      name, detail::typed_handler(std::function(std::move(function))), options);
}

// Calls a function and waits for its result. Throws RpcError; RemoteError if
// the function threw.
template <typename R, typename... Args>
R rpc_sync(const To& to, const std::string& function, const Args&... args) {
  const Message reply = detail::call_sync(to, function, pack_call<R>(args...));
  return static_cast<R>(detail::result_of<R>(reply));
}

// The same without waiting. Of a function that returns void, the future's value
// is a std::monostate.
template <typename R, typename... Args>
Future<detail::Value<R>> rpc_async(
    const To& to, const std::string& function, const Args&... args) {
  return detail::call_async(to, function, pack_call<R>(args...))
      .transform(
          [](const Message& reply) { return detail::result_of<R>(reply); });
}

// Calls a function of many workers with the same arguments, as one: the results
// in the order of the workers, when all have ended. A failure is a result.
template <typename R, typename... Args>
Future<std::vector<Result<detail::Value<R>>>> rpc_all(
    const std::vector<std::string>& workers,
    const CallSettings& settings,
    const std::string& function,
    const Args&... args) {
  using Value = detail::Value<R>;
  return detail::call_all(workers, settings, function, pack_call<R>(args...))
      .transform([](const std::vector<Result<Message>>& replies) {
        std::vector<Result<Value>> results;
        for (const Result<Message>& reply : replies) {
          try {
            results.emplace_back(detail::result_of<R>(reply.value()));
          } catch (...) {
            results.emplace_back(std::current_exception());
          }
        }
        return results;
      });
}

} // namespace argosy::rpc
