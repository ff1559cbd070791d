// One rank of exchange_test: adopts what started it, exchanges as
// often as its argument says, prints.

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/world/address_exchange.h"
#include "argosy/world/adopt.h"

namespace {

using namespace argosy;

void run(int times) {
  const LaunchInfo info = adopt_process().info;
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  std::vector<ExchangedAddress> values;
  std::string line =
      str("rank ", info.rank, " by ", to_string(info.address_exchange), " got");
  for (int i = 0; i < times; ++i) {
    const std::string own = str("host-", info.rank, ":", 1000 + i);
    values.push_back(exchange_address(info, own, deadline));
    line += str(" ", values.back().value());
  }
  std::cout << line + "\n" << std::flush;
  // Rank 0 stays while the others may still ask; a real world has a barrier.
  ::usleep(info.rank == 0 ? 500000 : 0);
}

} // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? std::stoi(argv[1]) : 1);
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
