#include "argosy/ps/client/router.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/ps/service/queries.h"

namespace argosy::ps {

namespace {

// Between two looks at the store while nobody leads a region.
constexpr auto kRouterPause = std::chrono::milliseconds(10);
constexpr auto kTakeOverPatience = std::chrono::seconds(2);

[[noreturn]] void rethrow_remote(const rpc::RemoteError& error) {
  const std::string text =
      str_format("{} (from {})", error.text(), error.peer());
  if (error.type().find("InvalidArgument") != std::string::npos) {
    throw InvalidArgument(text);
  }
  if (error.type().find("TimeoutError") != std::string::npos) {
    throw TimeoutError(text);
  }
  throw Error(text);
}

} // namespace

Router::Router(Shape shape, std::shared_ptr<store::Kv> kv, std::string prefix)
    : shape_(shape),
      directory_(std::move(kv), std::move(prefix)),
      lineups_(static_cast<std::size_t>(shape.num_regions())) {}

void Router::connect(rpc::EndpointOptions options, Deadline deadline) {
  endpoint_ = std::make_unique<rpc::Endpoint>(std::move(options));
  while (true) {
    refresh(deadline);
    std::vector<std::string> missing;
    for (int region = 0; region < shape_.num_regions(); ++region) {
      if (leader_of(region) < 0) {
        missing.push_back(str("a leader of region ", region));
      }
    }
    {
      const std::lock_guard lock(mutex_);
      for (int server = 0; server < shape_.num_servers; ++server) {
        if (!servers_.contains(server)) {
          missing.push_back(str("server ", server));
        }
      }
    }
    if (missing.empty()) {
      return;
    }
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[ps.init_worker] missing after {}: {}",
          deadline.limit_text(),
          join(missing, ", ")));
    }
    std::this_thread::sleep_for(kRouterPause);
  }
}

void Router::disconnect() {
  if (endpoint_) {
    endpoint_->shutdown(Deadline::after(std::chrono::seconds(1)));
  }
}

void Router::refresh(Deadline deadline) {
  const auto servers = directory_.servers(deadline);
  std::vector<std::optional<Lineup>> lineups;
  for (int region = 0; region < shape_.num_regions(); ++region) {
    lineups.push_back(directory_.lineup(region, deadline));
  }
  const std::lock_guard lock(mutex_);
  set_peers(servers);
  for (std::size_t i = 0; i < lineups.size(); ++i) {
    const bool newer =
        lineups[i] && (!lineups_[i] || lineups[i]->epoch > lineups_[i]->epoch);
    if (newer) {
      lineups_[i] = lineups[i];
    }
  }
}

void Router::set_peers(const std::map<int, ServerRecord>& servers) {
  if (servers == servers_) {
    return;
  }
  servers_ = servers;
  if (static_cast<int>(servers_.size()) < shape_.num_servers) {
    return; // until all have come
  }
  std::vector<rpc::PeerInfo> peers;
  for (const auto& [server, record] : servers_) {
    peers.push_back({str("server ", server), record.address});
  }
  endpoint_->set_peers(std::move(peers));
}

int Router::leader_of(int region) const {
  const std::lock_guard lock(mutex_);
  const auto& lineup = lineups_[static_cast<std::size_t>(region)];
  return lineup ? lineup->leader.server : -1;
}

std::uint64_t Router::num_failovers() const {
  const std::lock_guard lock(mutex_);
  return num_failovers_;
}

Router::Attempt Router::send(
    int region,
    std::string_view method,
    const rpc::Message& message,
    Deadline deadline) {
  std::unique_lock lock(mutex_);
  const Lineup lineup = *lineups_[static_cast<std::size_t>(region)];
  lock.unlock();
  return {
      endpoint_->call(
          lineup.leader.server, method, message, {.deadline = deadline}),
      lineup.epoch};
}

std::optional<Reply> Router::finish(
    int region, Attempt attempt, Deadline deadline) {
  bool lost = false;
  try {
    Reply reply = decode_reply(std::move(attempt.future).wait());
    if (reply.status != Status::NotLeader) {
      return reply;
    }
  } catch (const rpc::RemoteError& error) {
    rethrow_remote(error);
  } catch (const rpc::RpcError& error) {
    if (error.failure() == rpc::Failure::Timeout) {
      throw TimeoutError(str_format(
          "[ps.client] region {} did not answer: {}", region, error.what()));
    }
    lost = true;
  }
  recover(region, attempt.epoch, lost, deadline);
  return std::nullopt;
}

// Returns when there may be another leader, or the old one is back.
void Router::recover(
    int region, std::uint64_t epoch, bool lost, Deadline deadline) {
  if (deadline.expired()) {
    throw TimeoutError(str_format(
        "[ps.client] nobody leads region {} after {}",
        region,
        deadline.limit_text()));
  }
  refresh(deadline);
  std::unique_lock lock(mutex_);
  const Lineup lineup = *lineups_[static_cast<std::size_t>(region)];
  if (lineup.epoch > epoch) {
    ++num_failovers_;
    return;
  }
  lock.unlock();
  if (lost && lineup.backup) {
    ask_backup(region, lineup, deadline);
  } else {
    std::this_thread::sleep_for(kRouterPause);
  }
}

void Router::ask_backup(int region, const Lineup& lineup, Deadline deadline) {
  ByteWriter out;
  out.put(static_cast<std::uint32_t>(region))
      .put(ManageKind::TakeOver)
      .put(lineup.epoch);
  try {
    endpoint_
        ->call(
            lineup.backup->server,
            kManageMethod,
            {out.take(), {}},
            {.deadline = deadline.earlier(kTakeOverPatience)})
        .wait();
    refresh(deadline);
    const std::lock_guard lock(mutex_);
    ++num_failovers_;
  } catch (const rpc::RpcError& error) {
    log::debug("[ps.client] {}", error.what());
    std::this_thread::sleep_for(kRouterPause);
  }
}

void Router::stop_servers(Deadline deadline) {
  directory_.set_stopped(deadline);
  for (int server = 0; server < shape_.num_servers; ++server) {
    ByteWriter out;
    out.put(std::uint32_t{0}).put(ManageKind::Stop);
    try {
      endpoint_
          ->call(
              server,
              kManageMethod,
              {out.take(), {}},
              {.deadline = deadline.earlier(kTakeOverPatience)})
          .wait();
    } catch (const rpc::RpcError& error) {
      // It is gone, or reads in the store that it is to end.
      log::debug("[ps.client] {}", error.what());
    }
  }
}

Reply Router::call(
    int region,
    std::string_view method,
    const rpc::Message& message,
    Deadline deadline) {
  while (true) {
    auto reply =
        finish(region, send(region, method, message, deadline), deadline);
    if (reply) {
      return std::move(*reply);
    }
  }
}

} // namespace argosy::ps
