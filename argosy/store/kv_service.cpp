#include "argosy/store/kv_service.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/store/wire.h"

namespace argosy::store {

namespace {

std::string only_key(WireReader& in) {
  std::string key = in.key();
  in.end();
  return key;
}

std::int64_t only_number(WireReader& in) {
  const std::int64_t number = in.i64();
  in.end();
  return number;
}

// Fields are read in separate statements, because C++ does not define the order
// in which arguments are evaluated; and all of them before the table changes,
// because a message that goes on after them is refused.
void do_set(KvTable& table, WireReader& in) {
  const std::string key = in.key();
  const std::string value = in.text();
  const std::int64_t lease = in.i64();
  in.end();
  table.set(key, value, lease);
}

void do_add(KvTable& table, WireReader& in, WireWriter& out) {
  const std::string key = in.key();
  const std::int64_t amount = in.i64();
  in.end();
  out.i64(table.add(key, amount));
}

void do_compare_set(KvTable& table, WireReader& in, WireWriter& out) {
  const std::string key = in.key();
  const auto expected = in.optional_text();
  const std::string desired = in.text();
  in.end();
  const auto result = table.compare_set(key, expected, desired);
  out.u8(result.swapped ? 1 : 0);
  out.optional_text(result.value);
}

void do_list(const KvTable& table, WireReader& in, WireWriter& out) {
  const auto found = table.list(only_key(in), kLongestFrame);
  out.u32(static_cast<std::uint32_t>(found.size()));
  for (const auto& [key, value] : found) {
    out.text(key).text(value);
  }
}

// Clamps durations from the peer to a range where arithmetic cannot overflow.
std::chrono::milliseconds to_span(std::int64_t milliseconds) {
  constexpr std::int64_t kYear = 365LL * 24 * 3600 * 1000;
  return std::chrono::milliseconds(
      std::clamp<std::int64_t>(milliseconds, 0, kYear));
}

WireWriter run(KvTable& table, Op op, WireReader& in, KvTable::Time now) {
  WireWriter out(Status::Ok);
  switch (op) {
    case Op::Set:
      do_set(table, in);
      return out;
    case Op::Get:
      out.optional_text(table.get(only_key(in)));
      return out;
    case Op::Add:
      do_add(table, in, out);
      return out;
    case Op::CompareSet:
      do_compare_set(table, in, out);
      return out;
    case Op::Erase:
      out.u8(table.erase(only_key(in)) ? 1 : 0);
      return out;
    case Op::List:
      do_list(table, in, out);
      return out;
    case Op::Grant:
      out.i64(table.grant(to_span(only_number(in)), now));
      return out;
    case Op::Renew:
      out.u8(table.renew(only_number(in), now) ? 1 : 0);
      return out;
    case Op::Revoke:
      table.revoke(only_number(in));
      return out;
    case Op::Wait:
      break;
  }
  throw StoreError(
      str("[store.server] unknown operation ", static_cast<int>(op)));
}

std::string refusal(std::string_view reason) {
  return WireWriter(Status::Refused).text(reason).body();
}

std::string too_long(std::size_t size) {
  return refusal(str_format(
      "[store.server] the answer has {} bytes, expected at most {}",
      size,
      kLongestFrame));
}

} // namespace

std::optional<std::string> KvService::execute(
    std::string_view request, Time now, std::optional<PendingWait>& pending) {
  // Expires leases on time even if the timer is late.
  table_.expire(now);
  try {
    WireReader in(request);
    const auto op = static_cast<Op>(in.u8());
    if (op == Op::Wait) {
      const auto limit = to_span(in.i64());
      auto keys = in.keys();
      in.end();
      pending = PendingWait{TableWait(std::move(keys)), now + limit};
      return answer(*pending, now);
    }
    std::string body = run(table_, op, in, now).body();
    return body.size() > kLongestFrame ? too_long(body.size()) : body;
  } catch (const StoreError& error) {
    return refusal(error.what());
  }
}

std::optional<std::string> KvService::answer(
    PendingWait& pending, Time now) const {
  if (pending.wait.done(table_)) {
    return WireWriter(Status::Ok).body();
  }
  if (now < pending.deadline) {
    return std::nullopt;
  }
  return WireWriter(Status::Missing)
      .texts(table_.missing(pending.wait.keys()))
      .body();
}

} // namespace argosy::store
