#include "argosy/store/kv_service.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/store/wire.h"

namespace argosy::store {

namespace {

// Fields are read in separate statements, because C++ does not define the order
// in which arguments are evaluated.
void do_set(KvTable& table, WireReader& in) {
  const std::string key = in.text();
  const std::string value = in.text();
  table.set(key, value, in.i64());
}

void do_add(KvTable& table, WireReader& in, WireWriter& out) {
  const std::string key = in.text();
  out.i64(table.add(key, in.i64()));
}

void do_compare_set(KvTable& table, WireReader& in, WireWriter& out) {
  const std::string key = in.text();
  const auto expected = in.optional_text();
  const auto result = table.compare_set(key, expected, in.text());
  out.u8(result.swapped ? 1 : 0);
  out.optional_text(result.value);
}

void do_list(const KvTable& table, WireReader& in, WireWriter& out) {
  const auto found = table.list(in.text());
  out.u32(static_cast<std::uint32_t>(found.size()));
  for (const auto& [key, value] : found) {
    out.text(key).text(value);
  }
}

// Clamps durations from the peer to a range where arithmetic cannot overflow.
std::chrono::milliseconds read_span(WireReader& in) {
  constexpr std::int64_t kYear = 365LL * 24 * 3600 * 1000;
  return std::chrono::milliseconds(
      std::clamp<std::int64_t>(in.i64(), 0, kYear));
}

WireWriter run(KvTable& table, Op op, WireReader& in, KvTable::Time now) {
  WireWriter out(Status::Ok);
  switch (op) {
    case Op::Set:
      do_set(table, in);
      return out;
    case Op::Get:
      out.optional_text(table.get(in.text()));
      return out;
    case Op::Add:
      do_add(table, in, out);
      return out;
    case Op::CompareSet:
      do_compare_set(table, in, out);
      return out;
    case Op::Erase:
      out.u8(table.erase(in.text()) ? 1 : 0);
      return out;
    case Op::List:
      do_list(table, in, out);
      return out;
    case Op::Grant:
      out.i64(table.grant(read_span(in), now));
      return out;
    case Op::Renew:
      out.u8(table.renew(in.i64(), now) ? 1 : 0);
      return out;
    case Op::Revoke:
      table.revoke(in.i64());
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
      const auto limit = read_span(in);
      pending = PendingWait{TableWait(in.texts()), now + limit};
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
