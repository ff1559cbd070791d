#pragma once

// What the rank programs of mpi_test share.

#include <mpi.h>

#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::testing {

template <typename Thrown>
void expect_error(const std::string& text, const std::function<void()>& call) {
  try {
    call();
  } catch (const Thrown& error) {
    const std::string what = error.what();
    ARGOSY_CHECK(what.find(text) != what.npos, "{} lacks {}", what, text);
    return;
  }
  throw Error(str("no error, expected one with ", text));
}

// main() of `program CASE,CASE,... THREAD_LEVEL`: MPI around the cases.
inline int run_mpi_case(
    int argc,
    char** argv,
    const std::map<std::string, std::function<void()>>& cases) {
  const std::map<std::string, int> levels = {
      {"funneled", MPI_THREAD_FUNNELED},
      {"serialized", MPI_THREAD_SERIALIZED},
      {"multiple", MPI_THREAD_MULTIPLE}};
  int provided = 0;
  MPI_Init_thread(&argc, &argv, levels.at(argv[2]), &provided);
  std::string now;
  try {
    for (const std::string& name : split(argv[1], ',')) {
      now = name;
      cases.at(name)();
    }
  } catch (const std::exception& error) {
    std::cerr << str("FAILED: ", now, ": ", error.what(), "\n");
    return 1;
  }
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0 ? 0 : MPI_Finalize();
}

} // namespace argosy::testing
