#include "argosy/data/corpora.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "argosy/common/error.h"
#include "argosy/common/process_status.h"
#include "argosy/common/text.h"

namespace argosy::data {

namespace {

// Returns the output of a shell command. Throws SystemError whose message ends
// with `advice`.
std::string output_of(const char* line, const char* advice) {
  // "e" closes the pipe in processes that other threads start.
  FILE* pipe = ::popen(line, "re");
  if (pipe == nullptr) {
    throw SystemError(with_errno(str("[data.corpus] ", line)));
  }
  std::string output;
  std::array<char, 1 << 16> buffer{};
  while (const std::size_t size =
             std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), size);
  }
  const auto status = ProcessStatus::from_wait(::pclose(pipe));
  if (!status.success()) {
    throw SystemError(
        str("[data.corpus] ", line, ": ", status.text(), ", ", advice));
  }
  return output;
}

} // namespace

std::string king_james_bible() {
  const std::string verses = output_of(
      "timeout -k 5 60 bible -f gen1:1-rev22:21 </dev/null",
      "expected the package bible-kjv");
  std::string text;
  for (const std::string& line : split(verses, '\n')) {
    // "Ge1:1 In the beginning ..."
    const std::string_view verse(line);
    const std::size_t space = verse.find(' ');
    if (space == std::string_view::npos) {
      continue;
    }
    // An empty line before each chapter.
    if (verse.substr(0, space).ends_with(":1") && !text.empty()) {
      text += '\n';
    }
    text.append(verse.substr(space + 1)).append("\n");
  }
  return text;
}

IdxImages fashion_mnist(Split split, const std::filesystem::path& folder) {
  const std::string name = split == Split::Train ? "train" : "t10k";
  return {
      folder / (name + "-images-idx3-ubyte.gz"),
      folder / (name + "-labels-idx1-ubyte.gz")};
}

} // namespace argosy::data
