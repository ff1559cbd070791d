#pragma once

// What all calls of MPI share. Like most of this folder in headers only, so
// that libargosy.so links no MPI and works with every implementation.

#include <mpi.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "argosy/common/error.h"

namespace argosy::comm::mpi {

// Held around every call, never while waiting: the program may have promised
// MPI that calls do not overlap. One for the process, as MPI is.
inline std::recursive_mutex& calls_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

inline std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

// Throws PeerLost if a call failed; `peer` is the rank it concerns, -1 any.
inline void check(int code, const char* call, int peer) {
  if (code != MPI_SUCCESS) {
    const std::string whom = peer < 0 ? "" : str(", rank ", peer);
    throw PeerLost(str("[comm.mpi] ", call, whom, ": ", error_text(code)));
  }
}

inline const char* level_text(int level) {
  return level == MPI_THREAD_SINGLE    ? "MPI_THREAD_SINGLE"
      : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
      : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                       : "MPI_THREAD_MULTIPLE";
}

inline void check_running() {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  ARGOSY_CHECK(
      started != 0 && ended == 0,
      "[comm.mpi] MPI is {}, expected a program between MPI_Init_thread and "
      "MPI_Finalize",
      started != 0 ? "finalized" : "not initialised");
}

// Checks that MPI supports threads: asynchronous operations call it from
// threads of ours. Collective over `comm`; all ranks come to the same answer.
inline void check_threads(MPI_Comm comm) {
  int own = MPI_THREAD_SINGLE;
  MPI_Query_thread(&own);
  int lowest = own;
  MPI_Allreduce(&own, &lowest, 1, MPI_INT, MPI_MIN, comm);
  ARGOSY_CHECK(
      lowest == MPI_THREAD_MULTIPLE || lowest == MPI_THREAD_SERIALIZED,
      "[comm.mpi] MPI runs with {}, expected at least MPI_THREAD_SERIALIZED: "
      "start it with MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, "
      "&provided)",
      level_text(lowest));
}

// Calls `issue(offset, count)` for parts whose bytes an int can count.
template <typename Issue>
void for_parts(std::size_t bytes, const Issue& issue) {
  constexpr std::size_t kPart = 1u << 30;
  static_assert(kPart <= INT_MAX);
  for (std::size_t at = 0; at < bytes; at += kPart) {
    issue(at, static_cast<int>(std::min(kPart, bytes - at)));
  }
}

// The requests of one transfer. Use it under calls_mutex().
class Requests {
 public:
  void add(MPI_Request request) { pending_.push_back(request); }

  // Whether all have ended.
  bool test(const char* call, int peer) {
    while (!pending_.empty()) {
      int done = 0;
      check(MPI_Test(&pending_.back(), &done, MPI_STATUS_IGNORE), call, peer);
      if (done == 0) {
        return false;
      }
      pending_.pop_back();
    }
    return true;
  }

  // The same; a request that failed counts as ended.
  bool try_end() {
    try {
      return test("MPI_Test", -1);
    } catch (const PeerLost&) {
      return true;
    }
  }

  // Cancels receives that have not begun.
  void cancel() {
    for (MPI_Request& request : pending_) {
      MPI_Cancel(&request);
    }
  }

  // Leaves the requests to MPI; their buffers must outlive them.
  void forget() {
    for (MPI_Request& request : pending_) {
      MPI_Request_free(&request);
    }
    pending_.clear();
  }

 private:
  std::vector<MPI_Request> pending_;
};

} // namespace argosy::comm::mpi
