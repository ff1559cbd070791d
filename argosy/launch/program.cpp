#include "argosy/launch/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_executable(const std::string& path) {
  return is_file(path) && ::access(path.c_str(), X_OK) == 0;
}

// execve() in child.cpp does not search PATH. Searching here also finds a
// missing program before anything starts, and uses the PATH that the worker
// gets. As in POSIX, an empty entry is the current folder.
std::optional<std::string> find_in_path(
    const std::string& name, const Environment& environment) {
  const std::string path =
      environment.get("PATH", "/usr/local/bin:/usr/bin:/bin");
  for (const std::string& folder : split(path, ':')) {
    const std::string candidate = str(folder.empty() ? "." : folder, "/", name);
    if (is_executable(candidate)) {
      return candidate;
    }
  }
  return std::nullopt;
}

[[noreturn]] void throw_missing(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos;
  const char* why = !is_path ? "not found in PATH"
      : is_file(name)        ? "not executable"
                             : "no such file";
  const bool here = !is_path && is_file("./" + name);
  throw InvalidArgument(
      str("[launch.program] ",
          name,
          ": ",
          why,
          here ? str("; did you mean ./", name, "?") : ""));
}

std::string find_program(
    const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos) {
    if (is_executable(name)) {
      return name;
    }
  } else if (const auto found = find_in_path(name, environment)) {
    return *found;
  }
  throw_missing(name);
}

// Python puts "-c" into sys.argv[0]; the script expects its own path there.
constexpr const char* kRunPath =
    "import runpy, sys; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')";

// The words before the program's own.
std::vector<std::string> interpreter(
    const RunOptions& options, const Environment& environment) {
  const std::string& program = options.program[0];
  const bool script = options.program_kind == ProgramKind::RunPath ||
      (options.program_kind == ProgramKind::Automatic &&
       program.ends_with(".py"));
  if (options.program_kind != ProgramKind::Module && !script) {
    return {};
  }
  if (script && !is_file(program)) {
    throw InvalidArgument(str("[launch.program] ", program, ": no such file"));
  }
  std::vector<std::string> words = {
      find_program(environment.get("PYTHON_EXEC", "python3"), environment),
      // Unbuffered: lines appear when they are printed, also in a pipe or file.
      "-u"};
  if (options.program_kind == ProgramKind::Module) {
    words.push_back("-m");
  } else if (options.program_kind == ProgramKind::RunPath) {
    words.insert(words.end(), {"-c", kRunPath});
  }
  return words;
}

} // namespace

std::vector<std::string> program_argv(
    const RunOptions& options, const Environment& environment) {
  std::vector<std::string> argv = interpreter(options, environment);
  const bool direct = argv.empty();
  argv.insert(argv.end(), options.program.begin(), options.program.end());
  if (direct) {
    argv[0] = find_program(argv[0], environment);
  }
  return argv;
}

} // namespace argosy::launch
