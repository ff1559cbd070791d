#include "run_snippet.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/fleet/strategy.h"
#include "argosy/fleet/strategy_check.h"
#include "argosy/testing/ranks.h"

namespace argosy_docs {

namespace {

using Main = std::function<int(int, char**)>;

// Filled before main(), by static objects.
std::map<std::string, Main>& programs() {
  static std::map<std::string, Main> all;
  return all;
}

// Snippets write files by relative paths.
class InEmptyFolder {
 public:
  InEmptyFolder() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
  }
  ~InEmptyFolder() { std::filesystem::current_path(before_); }
  InEmptyFolder(const InEmptyFolder&) = delete;
  InEmptyFolder& operator=(const InEmptyFolder&) = delete;

 private:
  const std::filesystem::path before_;
  argosy::TempDir folder_;
};

} // namespace

void run_fragment(const char* where, int num_ranks, void (*fragment)()) {
  SCOPED_TRACE(where);
  const InEmptyFolder folder;
  at::set_num_threads(1);
  EXPECT_NO_THROW(argosy::testing::run_ranks(
      num_ranks, [&](argosy::World&) { fragment(); }));
}

void check_strategy(const char* where, const char* json) {
  SCOPED_TRACE(where);
  EXPECT_NO_THROW(argosy::fleet::check_strategy(
      argosy::fleet::DistributedStrategy::from_json(json)));
}

Program::Program(const char* name, int (*main)()) {
  programs()[name] = [main](int, char**) { return main(); };
}

Program::Program(const char* name, int (*main)(int, char**)) {
  programs()[name] = main;
}

void run_program(
    const char* where,
    int num_ranks,
    const char* name,
    const std::optional<std::string>& expected) {
  SCOPED_TRACE(where);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const InEmptyFolder folder;
  const std::string line = argosy::str(
      "timeout -k 5 60 " ARGOSY_COMMAND " run -n ",
      num_ranks,
      " ",
      self,
      " --program ",
      name,
      " >printed 2>errors");
  EXPECT_EQ(std::system(line.c_str()), 0)
      << argosy::read_file("errors").value_or("");
  if (expected) {
    EXPECT_EQ(argosy::read_file("printed").value_or(""), *expected);
  }
}

} // namespace argosy_docs

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--program") {
    return argosy_docs::programs().at(argv[2])(argc - 2, argv + 2);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
