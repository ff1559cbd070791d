#include "argosy/world/exchange.h"

#include <atomic>

#include "argosy/common/error.h"
#include "argosy/world/exchange_ways.h"

namespace argosy {

Exchanged::~Exchanged() {
  if (withdraw_) {
    withdraw_();
  }
}

Exchanged::Exchanged(Exchanged&& other) noexcept
    : value_(std::move(other.value_)),
      withdraw_(std::exchange(other.withdraw_, nullptr)) {}

namespace world {

void throw_no_value(const ExchangeRequest& request, const std::string& where) {
  throw TimeoutError(
      str("[world.exchange] rank 0 of ",
          request.info.size,
          " published no address within ",
          request.deadline.limit_text(),
          ", looked in ",
          where,
          "; rank ",
          request.info.rank));
}

namespace {

// A process may join several worlds in turn. The job's names are the process's
// too, so each exchange takes the next one: a late reader of the second must
// not find the value of the first.
std::string next_key() {
  static std::atomic<int> count = 0;
  return str("argosy-", count++);
}

} // namespace

} // namespace world

Exchanged exchange(
    const LaunchInfo& info,
    const std::string& value_of_rank0,
    Deadline deadline) {
  const Environment env = Environment::of_process();
  const world::ExchangeRequest request{
      info, env, world::next_key(), value_of_rank0, deadline};
  switch (info.exchange) {
    case Exchange::LocalFile:
      return world::exchange_by_file(request);
    case Exchange::Pmi:
      return world::exchange_by_pmi(request);
    case Exchange::Pmix:
      return world::exchange_by_pmix(request);
    case Exchange::None:
      break;
  }
  throw InvalidArgument(
      str("[world.exchange] ", info, ": this world has no exchange"));
}

} // namespace argosy
