#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/rpc/endpoint.h"

namespace argosy::rpc::testing {

inline Deadline within(int seconds) {
  return Deadline::after(std::chrono::seconds(seconds));
}

inline EndpointOptions options_for(Transport transport, PeerId id) {
  return {
      .name = "worker" + std::to_string(id),
      .id = id,
      .tcp_host = transport == Transport::Tcp ? "127.0.0.1" : "",
      .transport = transport};
}

// For INSTANTIATE_TEST_SUITE_P.
inline auto all_transports() {
  return ::testing::Values(
      Transport::SharedMemory, Transport::Unix, Transport::Tcp);
}

inline std::string transport_name(
    const ::testing::TestParamInfo<Transport>& param) {
  return param.param == Transport::SharedMemory ? "Memory"
      : param.param == Transport::Unix          ? "Unix"
                                                : "Tcp";
}

// Tells all who the others are.
inline void introduce(const std::vector<std::unique_ptr<Endpoint>>& endpoints) {
  std::vector<PeerInfo> peers;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    peers.push_back({"worker" + std::to_string(i), endpoints[i]->address()});
  }
  for (const auto& endpoint : endpoints) {
    endpoint->set_peers(peers);
  }
}

// Workers of one process that know each other.
inline std::vector<std::unique_ptr<Endpoint>> make_workers(
    int count, Transport transport, const EndpointOptions& common = {}) {
  std::vector<std::unique_ptr<Endpoint>> workers;
  for (int i = 0; i < count; ++i) {
    EndpointOptions options = options_for(transport, i);
    options.credentials = common.credentials;
    options.limits = common.limits;
    options.threads = common.threads;
    workers.push_back(std::make_unique<Endpoint>(std::move(options)));
  }
  introduce(workers);
  return workers;
}

inline Message text(std::string head) {
  return {std::move(head)};
}

// Answers with what came.
inline void echo(IncomingCall call) {
  Message request = call.take_request();
  std::move(call).reply(std::move(request));
}

inline std::string pattern(std::size_t size, unsigned seed = 1) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525u + 1013904223u;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

} // namespace argosy::rpc::testing
