// The `argosy` command: runs a subcommand and prints the errors that it throws.

#include <exception>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "apps/argosy/commands.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace {

using argosy::cli::Command;

void print_help() {
  std::cout << "Argosy: distributed training for LibTorch.\n\n"
               "Usage: argosy COMMAND [ARGUMENTS]\n\nCommands:\n";
  for (const Command& command : argosy::cli::all_commands()) {
    std::cout << "  " << std::left << std::setw(7) << command.name
              << command.summary << "\n";
  }
  std::cout << "\nRun `argosy COMMAND --help` for details.\n";
}

int unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : argosy::cli::all_commands()) {
    names.emplace_back(command.name);
  }
  const auto meant = argosy::nearest(name, names);
  std::cerr << "argosy: no command \"" << name << "\""
            << (meant ? "; did you mean \"" + *meant + "\"?" : ".")
            << " See argosy --help.\n";
  return 2;
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" ||
      words[0] == "help") {
    print_help();
    return words.empty() ? 2 : 0;
  }
  if (words[0] == "--version") {
    std::cout << "argosy " << ARGOSY_VERSION << "\n";
    return 0;
  }
  for (const Command& command : argosy::cli::all_commands()) {
    if (words[0] == command.name) {
      return command.function({words.begin() + 1, words.end()});
    }
  }
  return unknown_command(words[0]);
}

} // namespace

// Exits with 2 for mistakes in the command line or the environment, and with 1
// for failures, so that scripts can tell them apart.
int main(int argc, char** argv) {
  try {
    return dispatch({argv + 1, argv + argc});
  } catch (const argosy::InvalidArgument& error) {
    std::cerr << "argosy: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "argosy: " << error.what() << "\n";
    return 1;
  }
}
