// A rank that meets the others and leaves. Prints when main() began and when
// the first barrier was over, in nanoseconds of the steady clock.

#include <chrono>
#include <iostream>

#include "argosy/comm/ops.h"
#include "argosy/world/init.h"
#include "argosy/world/record.h"

namespace {

long long now() {
  return std::chrono::steady_clock::now().time_since_epoch() /
      std::chrono::nanoseconds(1);
}

} // namespace

int main() {
  const long long begin = now();
  return argosy::record([&] {
    argosy::init_parallel_env();
    argosy::barrier();
    const long long end = now();
    argosy::destroy_process_group();
    std::cout << begin << " " << end << std::endl;
  });
}
