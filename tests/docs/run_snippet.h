#pragma once

#include <functional>
#include <optional>
#include <string>

// What the sources that tools/doc_snippets.py makes call. `where` is
// "page:line".
namespace argosy_docs {

// Runs a fragment on thread ranks that have met, in an empty folder.
void run_fragment(const char* where, int num_ranks, void (*fragment)());

// Expects that `json` is a strategy, and that its settings go together.
void check_strategy(const char* where, const char* json);

// A complete program, which this executable becomes with the arguments
// `--program NAME`.
struct Program {
  Program(const char* name, int (*main)());
  Program(const char* name, int (*main)(int, char**));
};

// Runs a program under `argosy run`, in an empty folder. Expects that it ends
// well, and that it prints `expected`.
void run_program(
    const char* where,
    int num_ranks,
    const char* name,
    const std::optional<std::string>& expected);

} // namespace argosy_docs
