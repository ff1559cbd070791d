#include "argosy/store/tcp_kv.h"

#include "argosy/common/error.h"
#include "argosy/common/timeline.h"
#include "argosy/store/error_text.h"
#include "argosy/store/renewed_lease.h"
#include "argosy/store/tcp_client.h"

namespace argosy::store {

namespace {

// How long after the deadline the server may still report the missing keys.
constexpr std::chrono::milliseconds kAnswerGrace(100);

// The fields of a reply, after its status.
WireReader fields(const std::string& reply) {
  WireReader in(reply);
  in.u8();
  return in;
}

LeaseOperations operations_of(
    const std::shared_ptr<TcpClient>& client, std::int64_t id) {
  const auto renew = [client, id](Deadline deadline) {
    const auto request = WireWriter(Op::Renew).i64(id);
    const auto reply =
        client->call("renew", request, Repeat::Allowed, deadline);
    return fields(reply).u8() != 0;
  };
  const auto revoke = [client, id](Deadline deadline) {
    const auto request = WireWriter(Op::Revoke).i64(id);
    client->call("release", request, Repeat::Allowed, deadline);
  };
  return {renew, revoke};
}

} // namespace

TcpKv::TcpKv(const Endpoint& server, Deadline deadline, TcpKvOptions options)
    : client_(std::make_shared<TcpClient>(server, deadline, options)) {}

TcpKv::~TcpKv() = default;

void TcpKv::set(
    const std::string& key,
    const std::string& value,
    Deadline deadline,
    const Lease* lease) {
  const auto id = lease_id(lease, client_.get());
  const auto request = WireWriter(Op::Set).text(key).text(value).i64(id);
  client_->call("set", request, Repeat::Allowed, deadline);
}

std::optional<std::string> TcpKv::get(
    const std::string& key, Deadline deadline) {
  const auto request = WireWriter(Op::Get).text(key);
  const auto reply = client_->call("get", request, Repeat::Allowed, deadline);
  return fields(reply).optional_text();
}

std::int64_t TcpKv::add(
    const std::string& key, std::int64_t amount, Deadline deadline) {
  const auto request = WireWriter(Op::Add).text(key).i64(amount);
  // If the first try was applied and its reply lost, a repeat would add twice.
  const auto reply = client_->call("add", request, Repeat::Forbidden, deadline);
  return fields(reply).i64();
}

CompareSet TcpKv::compare_set(
    const std::string& key,
    const std::optional<std::string>& expected,
    const std::string& desired,
    Deadline deadline) {
  // A repeat could meet the value that its first try wrote, and would report
  // that it did not swap.
  const auto request = WireWriter(Op::CompareSet)
                           .text(key)
                           .optional_text(expected)
                           .text(desired);
  const auto reply =
      client_->call("compare_set", request, Repeat::Forbidden, deadline);
  WireReader in = fields(reply);
  const bool swapped = in.u8() != 0;
  return {swapped, in.optional_text()};
}

void TcpKv::wait(const std::vector<std::string>& keys, Deadline deadline) {
  // The server watches the time, since only it knows which keys are missing.
  // The client allows it a little longer, so that its answer arrives.
  const auto left = deadline.remaining();
  const auto request = WireWriter(Op::Wait).i64(left.count()).texts(keys);
  std::string reply;
  try {
    reply = client_->call(
        "wait", request, Repeat::Allowed, Deadline::after(left + kAnswerGrace));
  } catch (const TimeoutError& error) {
    throw TimeoutError(
        str(missing_text(keys, deadline), " (", error.what(), ")"));
  }
  WireReader in(reply);
  if (static_cast<Status>(in.u8()) == Status::Missing) {
    throw TimeoutError(missing_text(in.keys(), deadline));
  }
}

bool TcpKv::erase(const std::string& key, Deadline deadline) {
  // A repeat would report that the key did not exist.
  const auto request = WireWriter(Op::Erase).text(key);
  const auto reply =
      client_->call("erase", request, Repeat::Forbidden, deadline);
  return fields(reply).u8() != 0;
}

std::map<std::string, std::string> TcpKv::list(
    const std::string& prefix, Deadline deadline) {
  const auto request = WireWriter(Op::List).text(prefix);
  const auto reply = client_->call("list", request, Repeat::Allowed, deadline);
  WireReader in = fields(reply);
  std::map<std::string, std::string> found;
  for (auto count = in.count(2 * kLengthBytes); count > 0; --count) {
    std::string key = in.key();
    found.emplace_hint(found.end(), std::move(key), in.text());
  }
  return found;
}

std::unique_ptr<Lease> TcpKv::grant(
    std::chrono::milliseconds ttl, Deadline deadline) {
  check_ttl(ttl);
  const auto request = WireWriter(Op::Grant).i64(ttl.count());
  const auto asked = time_now();
  // A repeat may leave a second lease on the server, which nobody renews and
  // which so expires.
  const auto reply = client_->call("grant", request, Repeat::Allowed, deadline);
  const std::int64_t id = fields(reply).i64();
  return std::make_unique<RenewedLease>(
      LeaseTerms{id, ttl, asked}, client_.get(), operations_of(client_, id));
}

} // namespace argosy::store
