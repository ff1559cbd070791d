#pragma once

// What the sources that tools/doc_snippets.py makes call. `where` is
// "page:line".
namespace argosy_docs {

// Runs a fragment on thread ranks that have met, in an empty folder.
void run_fragment(const char* where, int num_ranks, void (*fragment)());

// Expects that `json` is a strategy, and that its settings go together.
void check_strategy(const char* where, const char* json);

} // namespace argosy_docs
