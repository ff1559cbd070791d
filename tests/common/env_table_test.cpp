// docs/env.md, the table in the code, and the names that the code mentions are
// the same set.

#include "argosy/common/env_table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy {
namespace {

namespace fs = std::filesystem;

std::string source(const fs::path& path) {
  return read_file(fs::path(ARGOSY_SOURCE_DIR) / path).value();
}

// Names inside string literals: macros such as ARGOSY_CHECK are not variables.
std::set<std::string> mentioned_in(const fs::path& path) {
  static const std::regex kName("\"(ARGOSY_[A-Z_]+)\"");
  const std::string text = read_file(path).value();
  std::set<std::string> names;
  for (std::sregex_iterator i(text.begin(), text.end(), kName), end; i != end;
       ++i) {
    names.insert((*i)[1]);
  }
  return names;
}

TEST(EnvTable, IsSortedAndComplete) {
  std::string previous;
  for (const EnvVariable& variable : env_table()) {
    EXPECT_LT(previous, variable.name);
    EXPECT_FALSE(variable.meaning.empty());
    previous = variable.name;
  }
}

TEST(EnvTable, DocsShowItLineByLine) {
  std::string expected;
  for (const EnvVariable& variable : env_table()) {
    expected += str_format(
        "| `{}` | {} | {} |\n",
        variable.name,
        variable.default_text,
        variable.meaning);
  }
  const std::string docs = source("docs/env.md");
  EXPECT_NE(docs.find("|---|---|---|\n" + expected + "\n"), std::string::npos)
      << "docs/env.md should hold just these lines:\n"
      << expected;
}

TEST(EnvTable, HoldsEveryNameThatTheCodeMentions) {
  std::set<std::string> known;
  for (const EnvVariable& variable : env_table()) {
    known.emplace(variable.name);
  }
  std::set<std::string> mentioned;
  for (const char* folder : {"argosy", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(
             fs::path(ARGOSY_SOURCE_DIR) / folder)) {
      const bool code = entry.path().extension() == ".cpp" ||
          entry.path().extension() == ".h";
      if (code && entry.path().filename() != "env_table.cpp") {
        mentioned.merge(mentioned_in(entry.path()));
      }
    }
  }
  EXPECT_EQ(mentioned, known);
}

} // namespace
} // namespace argosy
