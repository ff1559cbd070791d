#include "argosy/common/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "argosy/common/error.h"

namespace argosy {

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return std::nullopt;
    }
    throw SystemError(with_errno(str("[file.read] ", path.string())));
  }
  std::ostringstream content;
  content << in.rdbuf();
  if (in.bad()) {
    throw SystemError(with_errno(str("[file.read] ", path.string())));
  }
  return content.str();
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  // rename() is atomic, so readers see the old content or the new, never a
  // part. The process id keeps concurrent writers apart.
  const std::string partial = str(path.string(), ".", ::getpid(), ".partial");
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.flush();
    if (!out) {
      const std::string message =
          with_errno(str("[file.write] ", path.string()));
      ::unlink(partial.c_str());
      throw SystemError(message);
    }
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) {
    const std::string message = with_errno(str("[file.write] ", path.string()));
    ::unlink(partial.c_str());
    throw SystemError(message);
  }
}

// A file without a name goes away with its last descriptor or mapping, even if
// the process is killed. Old kernels return EISDIR for O_TMPFILE.
int open_nameless(const std::filesystem::path& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
    return file;
  }
  // The file system does not support O_TMPFILE: create a named file and unlink
  // it.
  std::string name = (folder / "argosy.XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) {
    ::unlink(name.c_str());
  }
  return named;
}

TempDir::TempDir(std::string_view prefix) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / str(prefix, ".XXXXXX"))
          .string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw SystemError(with_errno(str("[file.temp_dir] ", pattern)));
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

} // namespace argosy
