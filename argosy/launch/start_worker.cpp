#include "argosy/launch/start_worker.h"

#include <unistd.h>

#include <filesystem>

#include "argosy/common/error.h"
#include "argosy/common/sigpipe.h"
#include "argosy/launch/child.h"
#include "argosy/launch/fd.h"

namespace argosy::launch {

namespace {

// Opens what the worker writes to. Our own console is duplicated, so that the
// caller closes all cases alike.
Fd open_stream(
    const StreamPlan& plan,
    int console_fd,
    const std::string& prefix,
    OutputPump& pump) {
  if (plan.file.empty()) {
    return plan.console ? Fd(::dup(console_fd)) : open_null();
  }
  Fd file = plan.appends ? append_file(plan.file) : create_file(plan.file);
  if (!plan.console) {
    return file;
  }
  Pipe pipe = make_pipe();
  pump.add(
      std::move(pipe.read), std::move(file), plan.file, console_fd, prefix);
  return std::move(pipe.write);
}

void make_folder_of(const std::string& file) {
  if (file.empty()) {
    return;
  }
  const auto folder = std::filesystem::path(file).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw SystemError(
        str("[launch.logs] ", folder.string(), ": ", error.message()));
  }
}

Fd open_stdin(const WorkerSpec& worker, Fd& hold) {
  if (worker.ends_with_stdin) {
    Pipe pipe = make_pipe();
    hold = std::move(pipe.write);
    return std::move(pipe.read);
  }
  // Workers must not read from a terminal: they are not in its foreground
  // process group and would be stopped.
  return worker.reads_stdin && ::isatty(STDIN_FILENO) == 0
      ? Fd(::dup(STDIN_FILENO))
      : open_null();
}

} // namespace

StartedWorker start_worker(
    const WorkerSpec& worker, const Environment& inherited, OutputPump& pump) {
  make_folder_of(worker.error_file);
  StartedWorker started;
  const Fd in = open_stdin(worker, started.stdin_hold);
  const Fd out = open_stream(worker.out, STDOUT_FILENO, worker.prefix, pump);
  const Fd err = open_stream(worker.err, STDERR_FILENO, worker.prefix, pump);
  ChildSpec child{
      .argv = worker.argv,
      .environment = inherited.variables(),
      .cpus = worker.cpus,
      .stdin_fd = in.get(),
      .stdout_fd = out.get(),
      .stderr_fd = err.get()};
  for (const auto& [name, value] : worker.variables) {
    child.environment[name] = value;
  }
  // `in`, `out` and `err` close at the end of this scope. If the launcher kept
  // the write end of a pipe, the pump would never see its end.
  started.pid = start_child(child);
  // Fits into the pipe, so that it does not block; a worker that has ended
  // already is found by its end.
  if (worker.ends_with_stdin && !worker.stdin_text.empty()) {
    const WithoutSigpipe guard;
    [[maybe_unused]] const auto written = ::write(
        started.stdin_hold.get(),
        worker.stdin_text.data(),
        worker.stdin_text.size());
  }
  return started;
}

WorkerSpec replacement_of(const WorkerSpec& worker, int count) {
  WorkerSpec next = worker;
  next.variables["ARGOSY_WORKER_RESTARTS"] = std::to_string(count);
  next.out.appends = true;
  next.err.appends = true;
  return next;
}

} // namespace argosy::launch
