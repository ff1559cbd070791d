#pragma once

#include <future>
#include <string>
#include <thread>
#include <utility>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"

namespace argosy::comm {

// Calls a function that may never return, such as a call of a c10d store whose
// server is stopped, for no longer than the deadline. It runs on a thread of
// its own, which is left behind when it does not return: the function must own
// what it uses. Throws TimeoutError with the text `late`. Not installed.
template <typename Call>
auto limited_call(Call call, Deadline deadline, const std::string& late) {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto answer = task.get_future();
  std::thread(std::move(task)).detach();
  if (answer.wait_until(deadline.time()) != std::future_status::ready) {
    throw TimeoutError(late);
  }
  return answer.get();
}

} // namespace argosy::comm
