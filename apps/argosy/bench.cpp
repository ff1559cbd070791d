// `argosy bench SUBJECT`: executes the program of that bench. Benches need
// torch, so they are separate programs.

#include <unistd.h>

#include <filesystem>
#include <iomanip>
#include <iostream>

#include "apps/argosy/commands.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::cli {

namespace {

namespace fs = std::filesystem;

struct Subject {
  const char* name;
  const char* summary;
};

constexpr Subject kSubjects[] = {
    {"comm",
     "collectives, compared with Gloo, Open MPI and the memory bandwidth"},
};

void print_help() {
  std::cout << "Measures Argosy and its peers in one run on this host.\n"
               "Usage: argosy bench SUBJECT [ARGUMENTS]\n\nSubjects:\n";
  for (const Subject& subject : kSubjects) {
    std::cout << "  " << std::left << std::setw(6) << subject.name
              << subject.summary << "\n";
  }
  std::cout << "\nRun `argosy bench SUBJECT --help` for details.\n";
}

void check_subject(const std::string& name) {
  std::vector<std::string> names;
  for (const Subject& subject : kSubjects) {
    if (name == subject.name) {
      return;
    }
    names.emplace_back(subject.name);
  }
  throw InvalidArgument(
      str("[bench] no subject \"", name, "\"; there are: ", join(names, ", ")));
}

fs::path own_path() {
  return fs::read_symlink("/proc/self/exe");
}

fs::path find_program(const std::string& name) {
  const fs::path here = own_path().parent_path();
  // The command runs both installed and from the build folder.
  for (const char* folder : {BENCH_INSTALLED, BENCH_BUILT}) {
    fs::path program = (here / folder / name).lexically_normal();
    if (fs::exists(program)) {
      return program;
    }
  }
  throw InvalidArgument(str_format(
      "[bench] {} does not exist: Argosy was built without its benches (cmake "
      "-DARGOSY_BUILD_BENCH=ON; `make install` has them)",
      (here / BENCH_INSTALLED / name).lexically_normal().string()));
}

} // namespace

int bench(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    print_help();
    return arguments.empty() ? 2 : 0;
  }
  check_subject(arguments[0]);
  std::vector<std::string> words = {
      find_program(arguments[0]).string(), "--argosy", own_path().string()};
  words.insert(words.end(), arguments.begin() + 1, arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  // Not a child process: signals and the exit code are then the bench's own.
  ::execv(argv[0], argv.data());
  throw SystemError(with_errno(str("[bench] ", words[0])));
}

} // namespace argosy::cli
