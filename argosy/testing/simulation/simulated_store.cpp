#include "argosy/testing/simulation/simulated_store.h"

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/store/error_text.h"
#include "argosy/store/renewed_lease.h"

namespace argosy::testing {

using store::CompareSet;
using store::KvTable;
using store::Lease;

// A real RenewedLease whose store can look at it.
class SimulatedLease final : public Lease {
 public:
  SimulatedLease(
      SimulatedStore& server,
      int node,
      store::LeaseTerms terms,
      store::LeaseOperations operations)
      : server_(server),
        node_(node),
        lease_(terms, &server, std::move(operations)) {
    server_.leases_[lease_.id()] = this;
  }
  ~SimulatedLease() override { server_.leases_.erase(lease_.id()); }

  bool alive() const override { return lease_.alive(); }
  void release() override { lease_.release(); }
  const store::RenewedLease& renewed() const { return lease_; }
  int node() const { return node_; }

 private:
  SimulatedStore& server_;
  const int node_;
  store::RenewedLease lease_;
};

// A client on a node.
class SimulatedKv final : public store::Kv {
 public:
  SimulatedKv(SimulatedStore& server, int node)
      : server_(server), node_(node) {}

  void set(
      const std::string& key,
      const std::string& value,
      Deadline deadline,
      const Lease* lease) override {
    const auto* const own = dynamic_cast<const SimulatedLease*>(lease);
    const auto id =
        lease_id(own == nullptr ? nullptr : &own->renewed(), &server_);
    call<bool>("set " + key, Repeats::Yes, deadline, [=](KvTable& table) {
      table.set(key, value, id);
      return true;
    });
  }

  std::optional<std::string> get(
      const std::string& key, Deadline deadline) override {
    return call<std::optional<std::string>>(
        "get " + key, Repeats::Yes, deadline, [=](KvTable& table) {
          return table.get(key);
        });
  }

  std::int64_t add(
      const std::string& key, std::int64_t amount, Deadline deadline) override {
    return call<std::int64_t>(
        "add " + key, Repeats::No, deadline, [=](KvTable& table) {
          return table.add(key, amount);
        });
  }

  CompareSet compare_set(
      const std::string& key,
      const std::optional<std::string>& expected,
      const std::string& desired,
      Deadline deadline) override {
    return call<CompareSet>(
        "compare_set " + key, Repeats::No, deadline, [=](KvTable& table) {
          return table.compare_set(key, expected, desired);
        });
  }

  void wait(const std::vector<std::string>& keys, Deadline deadline) override {
    for (Backoff backoff;; backoff.pause(deadline)) {
      const auto missing = call<std::vector<std::string>>(
          "wait", Repeats::Yes, deadline, [=](KvTable& table) {
            return table.missing(keys);
          });
      if (missing.empty()) {
        return;
      }
      if (deadline.expired()) {
        throw TimeoutError(store::missing_text(missing, deadline));
      }
    }
  }

  bool erase(const std::string& key, Deadline deadline) override {
    return call<bool>(
        "erase " + key, Repeats::No, deadline, [=](KvTable& table) {
          return table.erase(key);
        });
  }

  std::map<std::string, std::string> list(
      const std::string& prefix, Deadline deadline) override {
    return call<std::map<std::string, std::string>>(
        "list " + prefix, Repeats::Yes, deadline, [=](KvTable& table) {
          return table.list(prefix);
        });
  }

  std::unique_ptr<Lease> grant(
      std::chrono::milliseconds ttl, Deadline deadline) override {
    store::check_ttl(ttl);
    const auto asked = time_now();
    const auto id = call<std::int64_t>(
        "grant",
        Repeats::Yes,
        deadline,
        [ttl, &server = server_](KvTable& table) {
          return table.grant(ttl, server.simulation_.clock());
        });
    return std::make_unique<SimulatedLease>(
        server_, node_, store::LeaseTerms{id, ttl, asked}, operations(id));
  }

 private:
  using Try = SimulatedStore::Try;
  enum class Repeats { Yes, No };

  store::LeaseOperations operations(std::int64_t id) {
    const auto renew = [this, id](Deadline deadline) {
      return call<bool>(
          "renew",
          Repeats::Yes,
          deadline,
          [id, &server = server_](KvTable& table) {
            return table.renew(id, server.simulation_.clock());
          });
    };
    const auto revoke = [this, id](Deadline deadline) {
      call<bool>("revoke", Repeats::Yes, deadline, [=](KvTable& table) {
        table.revoke(id);
        return true;
      });
    };
    return {renew, revoke};
  }

  template <typename Result, typename Run>
  Result call(std::string what, Repeats repeats, Deadline deadline, Run run) {
    const auto result = std::make_shared<std::optional<Result>>();
    const bool writes = !what.starts_with("get") && !what.starts_with("list");
    const auto request =
        std::make_shared<SimulatedStore::Request>(SimulatedStore::Request{
            .what = std::move(what),
            .writes = writes,
            .run = [result, run](KvTable& table) { *result = run(table); }});
    exchange(request, repeats, deadline);
    return **result;
  }

  // As TcpClient and EtcdClient do. A request may outlive this client.
  void exchange(
      const SimulatedStore::RequestPtr& request,
      Repeats repeats,
      Deadline deadline) {
    Simulation& simulation = server_.simulation_;
    // A thread may be held up before it sends.
    sleep_for(simulation.random().between(
        std::chrono::microseconds(0), std::chrono::microseconds(50)));
    for (Backoff backoff;; backoff.pause(deadline)) {
      const auto sent = std::make_shared<Try>(
          Try{.node = node_, .task = simulation.current()});
      server_.send(request, sent);
      while (sent->state == Try::State::Open && !deadline.expired()) {
        simulation.park(deadline.time());
      }
      const bool late = deadline.expired() && simulation.random().chance(0.5);
      if (sent->state == Try::State::Answered && !late) {
        if (request->refused) {
          std::rethrow_exception(request->refused);
        }
        return;
      }
      if (deadline.expired()) {
        simulation.note(request->what, " gets no answer");
        throw TimeoutError(str("[simulated] no answer to ", request->what));
      }
      if (server_.kind_ == StoreKind::Tcp && repeats == Repeats::No) {
        simulation.note(request->what, " breaks");
        throw StoreError(str("[simulated] broken: ", request->what));
      }
    }
  }

  SimulatedStore& server_;
  const int node_;
};

std::shared_ptr<store::Kv> SimulatedStore::client(int node) {
  return std::make_shared<SimulatedKv>(*this, node);
}

void SimulatedStore::cut(int node, bool is_cut) {
  simulation_.note("the store ", is_cut ? "loses" : "finds", " node ", node);
  if (is_cut) {
    cut_.insert(node);
  } else {
    cut_.erase(node);
  }
}

void SimulatedStore::stall(std::chrono::nanoseconds time) {
  simulation_.note("the store stalls for ", duration_text(time));
  stalled_until_ = std::max(stalled_until_, simulation_.clock() + time);
  if (kind_ == StoreKind::Etcd) {
    // A new leader starts leases at full length.
    simulation_.after(stalled_until_ - simulation_.clock(), [this] {
      for (const auto& [id, lease] : leases_) {
        table_.renew(id, simulation_.clock());
      }
    });
  }
}

KvTable& SimulatedStore::table() {
  if (simulation_.clock() >= stalled_until_) {
    table_.expire(simulation_.clock());
  }
  return table_;
}

void SimulatedStore::check_leases() {
  for (const auto& [id, lease] : leases_) {
    require(
        simulation_.has_crashed(lease->node()) || !lease->alive() ||
            table_.has_lease(id),
        "node ",
        lease->node(),
        " takes lease ",
        id,
        " for alive, which the store has dropped");
  }
}

std::chrono::microseconds SimulatedStore::delay() {
  Random& random = simulation_.random();
  return random.chance(faults_.slow)
      ? random.between(faults_.longest, faults_.slowest)
      : random.between(faults_.shortest, faults_.longest);
}

void SimulatedStore::send(const RequestPtr& request, const TryPtr& sent) {
  const int num_copies =
      kind_ == StoreKind::Tcp && simulation_.random().chance(faults_.twice) ? 2
                                                                            : 1;
  for (int copy = 0; copy < num_copies; ++copy) {
    simulation_.after(
        delay(), [this, request, sent] { arrive(request, sent); });
  }
}

void SimulatedStore::arrive(const RequestPtr& request, const TryPtr& sent) {
  if (simulation_.clock() < stalled_until_) {
    simulation_.after(
        stalled_until_ - simulation_.clock() + delay(),
        [this, request, sent] { arrive(request, sent); });
    return;
  }
  if (is_lost(sent)) {
    return;
  }
  // etcd's client marks a change, so that a repeat finds it done.
  if (!request->executed || kind_ == StoreKind::Tcp) {
    execute(*request, sent->node);
  }
  simulation_.after(delay(), [this, sent] { answer(sent); });
}

void SimulatedStore::execute(Request& request, int node) {
  table_.expire(simulation_.clock());
  request.executed = true;
  request.refused = nullptr;
  num_changes_ += request.writes ? 1 : 0;
  try {
    request.run(table_);
    simulation_.note("store: ", request.what, " of node ", node);
  } catch (const StoreError&) {
    request.refused = std::current_exception();
    simulation_.note("store: ", request.what, " of node ", node, " refused");
  }
}

void SimulatedStore::answer(const TryPtr& sent) {
  if (!is_lost(sent)) {
    end(sent, Try::State::Answered);
  }
}

// A message that is lost may leave a broken connection behind.
bool SimulatedStore::is_lost(const TryPtr& sent) {
  Random& random = simulation_.random();
  if (random.chance(faults_.broken)) {
    end(sent, Try::State::Broken);
    return true;
  }
  return is_cut(sent->node) || random.chance(faults_.lost);
}

void SimulatedStore::end(const TryPtr& sent, Try::State state) {
  if (sent->state == Try::State::Open) {
    sent->state = state;
    simulation_.wake(sent->task);
  }
}

} // namespace argosy::testing
