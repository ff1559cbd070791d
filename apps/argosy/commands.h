#pragma once

#include <span>
#include <string>
#include <vector>

// Each subcommand of `argosy` is a function in a file of its name. It takes the
// words after the subcommand and returns the exit code.
namespace argosy::cli {

int bench(const std::vector<std::string>& arguments);
int ckpt(const std::vector<std::string>& arguments);
int env(const std::vector<std::string>& arguments);
int plan(const std::vector<std::string>& arguments);
int run(const std::vector<std::string>& arguments);
int trace(const std::vector<std::string>& arguments);

struct Command {
  const char* name;
  const char* summary;
  int (*function)(const std::vector<std::string>&);
};

// Those of this build: all_commands.cpp, or few_commands.cpp where higher
// modules are left out.
std::span<const Command> all_commands();

} // namespace argosy::cli
