// Exchange between ranks of one host: a file in the temporary folder, which
// only its owner can read or replace.
//
// Its four lines are the job's run_id, rank 0's process id and start time, and
// the value. A reader believes a file of its own user whose job is its own and
// whose writer is alive, so what a killed job left behind does no harm.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/address_exchange_ways.h"
#include "argosy/world/job_key.h"

namespace argosy::world {

namespace {

std::string path_of(const AddressExchangeRequest& request) {
  // FNV-1a: the same on every build, unlike std::hash.
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : str(request.info.run_id, "/", request.key)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  std::array<char, 17> hex{};
  std::snprintf(
      hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(hash));
  const auto name = str("argosy-", ::getuid(), "-", hex.data(), ".addr");
  return std::filesystem::temp_directory_path() / name;
}

[[noreturn]] void throw_errno(const std::string& path) {
  throw SystemError(with_errno(str("[world.exchange] cannot write ", path)));
}

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) {
      const int code = errno;
      ::close(fd);
      errno = code;
      throw_errno(path);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void publish(const AddressExchangeRequest& request, const std::string& path) {
  const int pid = ::getpid();
  const std::string content = str_format(
      "{}\n{}\n{}\n{}\n",
      request.info.run_id,
      pid,
      process_start_time(pid).value_or(""),
      request.value);
  std::string partial = path + ".XXXXXX";
  const int fd = ::mkostemp(partial.data(), O_CLOEXEC); // owner-only
  if (fd < 0) {
    throw_errno(partial);
  }
  write_all(fd, content, partial);
  ::close(fd);
  if (::rename(partial.c_str(), path.c_str()) != 0) {
    const int code = errno;
    ::unlink(partial.c_str());
    errno = code;
    throw_errno(path);
  }
}

// The content of a regular file that belongs to us alone.
std::optional<std::string> read_own(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    return std::nullopt;
  }
  struct stat status {};
  std::array<char, 4096> buffer{};
  const bool own = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_uid == ::getuid() && (status.st_mode & 077) == 0;
  const ssize_t size = own ? ::read(fd, buffer.data(), buffer.size()) : -1;
  ::close(fd);
  if (size < 0) {
    return std::nullopt;
  }
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

std::optional<std::string> believed_value(
    const std::string& path, const std::string& run_id) {
  const auto note = parse_exchange_note(read_own(path).value_or(""));
  // The start time tells the writer from a later process with the same id.
  const bool alive = note && note->run_id == run_id &&
      process_start_time(note->pid) == note->start_time;
  return alive ? std::optional(note->value) : std::nullopt;
}

std::string await(
    const AddressExchangeRequest& request, const std::string& path) {
  using std::chrono::milliseconds;
  for (Backoff backoff(milliseconds(1), milliseconds(10));;
       backoff.pause(request.deadline)) {
    if (const auto value = believed_value(path, request.info.run_id)) {
      return *value;
    }
    if (request.deadline.expired()) {
      throw_no_value(request, path);
    }
  }
}

} // namespace

std::optional<ExchangeNote> parse_exchange_note(std::string_view content) {
  const auto lines = split(content, '\n');
  // Four lines with their ends: split() returns an empty fifth part.
  if (lines.size() != 5 || !lines[4].empty()) {
    return std::nullopt;
  }
  const auto pid = parse_int(lines[1]);
  if (!pid || *pid <= 0 || *pid > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return ExchangeNote{lines[0], static_cast<int>(*pid), lines[2], lines[3]};
}

ExchangedAddress exchange_by_file(const AddressExchangeRequest& request) {
  const std::string path = path_of(request);
  if (request.info.rank != 0) {
    return ExchangedAddress(await(request, path));
  }
  const std::string lines = request.info.run_id + request.value;
  ARGOSY_CHECK(
      lines.find('\n') == std::string::npos && lines.size() < 4000,
      "[world.exchange] a value of {} bytes is not one line of less than 4000 "
      "bytes",
      request.value.size()); // not the value, which may hold a secret
  publish(request, path);
  return ExchangedAddress(request.value, [path] { ::unlink(path.c_str()); });
}

} // namespace argosy::world
