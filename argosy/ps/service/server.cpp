#include "argosy/ps/service/server.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/ps/service/messages.h"
#include "argosy/ps/service/queries.h"
#include "argosy/ps/service/region.h"
#include "argosy/rpc/endpoint.h"

namespace argosy::ps {

namespace {

constexpr auto kManagePeriod = std::chrono::milliseconds(100);
// Asking another server is a matter of milliseconds.
constexpr auto kAskPatience = std::chrono::seconds(2);

void check_shape(const ServerOptions& options) {
  ARGOSY_CHECK(
      options.shape.num_servers >= 1 && options.shape.regions_per_server >= 1 &&
          options.server >= 0 && options.server < options.shape.num_servers,
      "[ps.server] server {} of {} with {} regions each",
      options.server,
      options.shape.num_servers,
      options.shape.regions_per_server);
  ARGOSY_CHECK(
      !options.replicated || options.shape.num_servers >= 2,
      "[ps.server] replicated with 1 server, expected at least 2");
  ARGOSY_CHECK(options.kv != nullptr, "[ps.server] no store");
}

// The name tells servers' logs apart if they share a folder.
LogOptions log_of(const ServerOptions& options) {
  LogOptions log = options.log;
  if (!log.folder.empty()) {
    log.folder += str("/server-", options.server);
  }
  return log;
}

} // namespace

Server::Server(ServerOptions options)
    : options_((check_shape(options), std::move(options))),
      directory_(options_.kv, options_.prefix) {
  const Deadline deadline = Deadline::after(options_.timeout);
  self_ = {options_.server, directory_.next_incarnation(deadline)};
  endpoint_ = std::make_unique<rpc::Endpoint>(rpc::EndpointOptions{
      .name = str("server ", options_.server),
      .id = options_.server,
      .credentials = options_.credentials,
      .tcp_host = options_.tcp_host,
      .tcp_port = options_.tcp_port});
  ServerRecord record{self_.incarnation, endpoint_->address(), {}};
  for (int region = 0; region < options_.shape.num_regions(); ++region) {
    const bool hosts = options_.shape.home_of(region) == options_.server ||
        (options_.replicated &&
         options_.shape.second_of(region) == options_.server);
    if (hosts) {
      auto& host = regions_[region] = std::make_unique<Region>(
          RegionOptions{
              region,
              options_.shape.num_regions(),
              self_,
              log_of(options_),
              options_.load_folder},
          *endpoint_,
          directory_);
      record.logs[region] = host->log_position().value_or(LogPosition{});
    }
  }
  serve();
  directory_.register_server(options_.server, record, deadline);
  manager_ = std::thread([this] { manage(); });
}

Server::~Server() {
  stop();
  manager_.join();
  for (auto& [number, region] : regions_) {
    region->leave();
  }
  // No handler may run while regions end, and no region may call.
  endpoint_->shutdown(Deadline::after(std::chrono::seconds(1)));
  regions_.clear();
}

void Server::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void Server::run(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(
          lock, deadline.time(), [this] { return stopped_; })) {
    throw TimeoutError(str_format(
        "[ps.run_server] nobody stopped the servers within {}",
        deadline.limit_text()));
  }
}

Region& Server::region_of(const rpc::Message& request) {
  ByteReader in(request.head, "server");
  const auto number = in.get<std::uint32_t>();
  const auto found = regions_.find(static_cast<int>(number));
  ARGOSY_CHECK(
      found != regions_.end(),
      "[ps.server] region {} is not on server {}",
      number,
      options_.server);
  return *found->second;
}

void Server::serve() {
  const rpc::ServeOptions at_once{.inline_ = true}; // they only queue
  using Take = void (Region::*)(rpc::IncomingCall);
  for (const auto& [method, take] :
       {std::pair<std::string_view, Take>{kPullMethod, &Region::pull},
        {kQueryMethod, &Region::query},
        {kReplicateMethod, &Region::replicate}}) {
    endpoint_->serve(
        std::string(method),
        [this, take = take](rpc::IncomingCall call) {
          Region& region = region_of(call.request());
          (region.*take)(std::move(call));
        },
        at_once);
  }
  endpoint_->serve(
      std::string(kCommandMethod),
      [this](rpc::IncomingCall call) {
        // A command begins with its kind.
        ByteReader in(call.request().head, "command");
        in.get<CommandKind>();
        const rpc::Message rest{std::string(in.rest()), {}};
        region_of(rest).command(std::move(call));
      },
      at_once);
  endpoint_->serve(
      std::string(kManageMethod),
      [this](rpc::IncomingCall call) { on_manage(std::move(call)); },
      at_once);
}

void Server::on_manage(rpc::IncomingCall call) {
  const rpc::Message request = call.request();
  ByteReader in(request.head, "manage");
  in.get<std::uint32_t>(); // the region
  switch (in.get<ManageKind>()) {
    case ManageKind::Join: {
      const auto server = in.get<std::int32_t>();
      const auto incarnation = in.get<std::uint64_t>();
      region_of(request).join(std::move(call), {server, incarnation});
      return;
    }
    case ManageKind::TakeOver: {
      const auto epoch = in.get<std::uint64_t>();
      region_of(request).take_over(std::move(call), epoch);
      return;
    }
    case ManageKind::Stop:
      std::move(call).reply(encode(Reply{}));
      stop();
      return;
  }
  throw InvalidArgument("[ps.manage] a request that does not exist");
}

// Gives regions their roles, again and again: a server that came back joins,
// and one that was dropped joins again.
void Server::manage() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    try {
      update_peers();
      for (auto& [region, host] : regions_) {
        manage_region(region, *host);
      }
    } catch (const std::exception& error) {
      log::warn("[ps.server] {}", error.what());
    }
    lock.lock();
    changed_.wait_for(lock, kManagePeriod, [this] { return stopped_; });
  }
}

void Server::update_peers() {
  const Deadline deadline = Deadline::after(options_.timeout);
  if (directory_.is_stopped(deadline)) {
    stop();
  }
  auto servers = directory_.servers(deadline);
  if (servers == servers_) {
    return;
  }
  servers_ = std::move(servers);
  if (static_cast<int>(servers_.size()) < options_.shape.num_servers) {
    return; // until all have come
  }
  std::vector<rpc::PeerInfo> peers;
  for (const auto& [server, record] : servers_) {
    peers.push_back({str("server ", server), record.address});
  }
  endpoint_->set_peers(std::move(peers));
}

void Server::manage_region(int region, Region& host) {
  const auto recorded =
      directory_.lineup(region, Deadline::after(options_.timeout));
  if (!recorded) {
    claim(region, host);
    return;
  }
  host.confirm(*recorded);
  if (recorded->leader != self_ && recorded->backup != self_) {
    join_or_recover(region, host, *recorded);
  }
}

// When a job starts, who has the newest log leads; without logs, the region's
// home does.
bool Server::is_newest(int region, const Region& host) {
  const int home = options_.shape.home_of(region);
  const int other =
      home == options_.server ? options_.shape.second_of(region) : home;
  const LogPosition own = host.log_position().value_or(LogPosition{});
  if (!options_.replicated || other == options_.server) {
    return true;
  }
  const auto found = servers_.find(other);
  if (found == servers_.end()) {
    return false; // wait for it
  }
  const auto log = found->second.logs.find(region);
  const LogPosition theirs =
      log == found->second.logs.end() ? LogPosition{} : log->second;
  return own > theirs || (own == theirs && home == options_.server);
}

bool Server::claim(int region, Region& host) {
  if (!is_newest(region, host)) {
    return false;
  }
  const std::uint64_t epoch =
      host.log_position().value_or(LogPosition{}).epoch + 1;
  const Lineup desired{epoch, self_, std::nullopt};
  host.prepare_recovery(desired);
  const Lineup current = directory_.replace_lineup(
      region, std::nullopt, desired, Deadline::after(options_.timeout));
  if (current == desired) {
    host.confirm(desired);
  }
  return current == desired;
}

// Whether that run of a server is the last one that registered.
bool Server::runs(const Member& member) const {
  const auto found = servers_.find(member.server);
  return static_cast<int>(servers_.size()) == options_.shape.num_servers &&
      found != servers_.end() &&
      found->second.incarnation == member.incarnation;
}

bool Server::ask(int server, const rpc::Message& request) {
  try {
    endpoint_
        ->call(
            server,
            kManageMethod,
            request,
            {.deadline = Deadline::after(kAskPatience)})
        .wait();
    return true;
  } catch (const rpc::RpcError& error) {
    log::debug("[ps.server] server {}: {}", server, error.what());
    return false;
  }
}

void Server::join_or_recover(int region, Region& host, const Lineup& recorded) {
  ByteWriter join;
  join.put(static_cast<std::uint32_t>(region))
      .put(ManageKind::Join)
      .put(static_cast<std::int32_t>(self_.server))
      .put(self_.incarnation);
  if (runs(recorded.leader)) {
    // Also while it copies: the leader may have given that up.
    if (!options_.replicated ||
        ask(recorded.leader.server, {join.take(), {}})) {
      return;
    }
  }
  if (recorded.backup && runs(*recorded.backup)) {
    ByteWriter take_over;
    take_over.put(static_cast<std::uint32_t>(region))
        .put(ManageKind::TakeOver)
        .put(recorded.epoch);
    if (ask(recorded.backup->server, {take_over.take(), {}})) {
      return;
    }
  }
  const bool has_all = host.can_recover_as(recorded.leader.incarnation) ||
      (recorded.backup && host.can_recover_as(recorded.backup->incarnation));
  if (!has_all) {
    log::warn(
        "[ps.server] region {} was on server {}, which is gone, and server {} "
        "has no log of it",
        region,
        recorded.leader.server,
        options_.server);
    return;
  }
  const Lineup desired = recovered_by(recorded, self_);
  host.prepare_recovery(recorded);
  const Lineup current = directory_.replace_lineup(
      region, recorded, desired, Deadline::after(options_.timeout));
  host.confirm(current);
}

} // namespace argosy::ps
