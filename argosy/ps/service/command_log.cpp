#include "argosy/ps/service/command_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "argosy/checkpoint/hash.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/service/bytes.h"

namespace fs = std::filesystem;

namespace argosy::ps {

namespace {

constexpr char kLog[] = ".log";
constexpr char kSnapshot[] = ".snapshot";
constexpr char kUnfinished[] = ".unfinished";

// A record: this, then the head and the parts.
struct RecordHeader {
  std::uint64_t hash = 0;  // of all that follows
  std::uint64_t bytes = 0; // of all that follows the header
  std::uint64_t number = 0;
  std::uint32_t head_bytes = 0;
  std::uint32_t num_parts = 0;
};

std::uint64_t hash_of(
    const RecordHeader& header, const std::vector<std::string_view>& pieces) {
  checkpoint::BytesHash hash;
  const std::uint64_t fields[] = {
      header.bytes, header.number, header.head_bytes, header.num_parts};
  hash.add(std::as_bytes(std::span(fields)));
  for (const std::string_view piece : pieces) {
    hash.add(std::as_bytes(std::span(piece.data(), piece.size())));
  }
  return hash.result().low;
}

void write_pieces(int fd, std::vector<std::string_view> pieces) {
  for (std::string_view piece : pieces) {
    while (!piece.empty()) {
      const ssize_t written = ::write(fd, piece.data(), piece.size());
      if (written < 0 && errno != EINTR) {
        throw SystemError(with_errno("[ps.log] write"));
      }
      piece.remove_prefix(
          static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
  }
}

// A command that was read from a log; nullopt where the log ends.
std::optional<std::pair<std::uint64_t, rpc::Message>> next_record(
    std::string_view& rest) {
  RecordHeader header;
  if (rest.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, rest.data(), sizeof(header));
  const std::string_view body = rest.substr(sizeof(header));
  if (header.bytes > body.size()) {
    return std::nullopt;
  }
  const std::string_view content = body.substr(0, header.bytes);
  if (hash_of(header, {content}) != header.hash) {
    return std::nullopt;
  }
  ByteReader reader(content, "log");
  rpc::Message message;
  std::vector<std::uint64_t> sizes;
  for (std::uint32_t i = 0; i < header.num_parts; ++i) {
    sizes.push_back(reader.get<std::uint64_t>());
  }
  message.head = std::string(reader.raw(header.head_bytes));
  for (const std::uint64_t size : sizes) {
    // A copy, as parts are aligned and the file's bytes are not.
    message.parts.push_back(rpc::Bytes::owned(std::string(reader.raw(size))));
  }
  reader.end();
  rest.remove_prefix(sizeof(header) + header.bytes);
  return std::pair(header.number, std::move(message));
}

} // namespace

CommandLog::CommandLog(fs::path folder, int region, bool sync)
    : folder_(std::move(folder)), region_(region), sync_(sync) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw SystemError(
        str_format("[ps.log] {}: {}", folder_.string(), error.message()));
  }
  // A snapshot appears complete, by renaming: the last one counts.
  const auto snapshots = generations(kSnapshot);
  snapshot_ = snapshots.empty() ? 0 : snapshots.back();
  const auto logs = generations(kLog);
  open_log(logs.empty() ? snapshot_ : std::max(snapshot_, logs.back()));
}

CommandLog::~CommandLog() {
  close_files();
}

void CommandLog::close_files() {
  for (int* fd : {&fd_, &snapshot_fd_}) {
    if (*fd >= 0) {
      ::close(*fd);
      *fd = -1;
    }
  }
}

fs::path CommandLog::path_of(
    std::uint64_t generation, const char* ending) const {
  return folder_ / str_format("region-{}.{}{}", region_, generation, ending);
}

// Ascending.
std::vector<std::uint64_t> CommandLog::generations(const char* ending) const {
  const std::string prefix = str_format("region-{}.", region_);
  std::vector<std::uint64_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(ending)) {
      found.push_back(std::stoull(name.substr(prefix.size())));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

void CommandLog::open_log(std::uint64_t generation) {
  const fs::path path = path_of(generation, kLog);
  const int fd =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    throw SystemError(with_errno("[ps.log] " + path.string()));
  }
  if (fd_ >= 0) {
    ::close(fd_);
  }
  fd_ = fd;
  generation_ = generation;
  bytes_ = static_cast<std::uint64_t>(fs::file_size(path));
}

std::optional<std::string> CommandLog::read_snapshot() const {
  return snapshot_ == 0 ? std::nullopt
                        : read_file(path_of(snapshot_, kSnapshot));
}

void CommandLog::replay(
    const std::function<void(std::uint64_t, const rpc::Message&)>& apply) {
  for (const std::uint64_t generation : generations(kLog)) {
    if (generation < snapshot_) {
      continue;
    }
    const std::string content =
        read_file(path_of(generation, kLog)).value_or("");
    std::string_view rest = content;
    while (auto record = next_record(rest)) {
      apply(record->first, record->second);
    }
    if (generation == generation_) {
      bytes_ = content.size() - rest.size();
      if (::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) {
        throw SystemError(with_errno("[ps.log] truncate"));
      }
    } else if (!rest.empty()) {
      throw CheckpointError(str_format(
          "[ps.log] {} is damaged at byte {}",
          path_of(generation, kLog).string(),
          content.size() - rest.size()));
    }
  }
}

void CommandLog::append(std::uint64_t number, const rpc::Message& command) {
  std::string sizes;
  std::vector<std::string_view> pieces = {sizes, command.head};
  RecordHeader header{
      .number = number,
      .head_bytes = static_cast<std::uint32_t>(command.head.size()),
      .num_parts = static_cast<std::uint32_t>(command.parts.size())};
  for (const rpc::Bytes& part : command.parts) {
    const auto size = static_cast<std::uint64_t>(part.size);
    sizes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    pieces.push_back(part.text());
  }
  pieces.front() = sizes;
  for (const std::string_view piece : pieces) {
    header.bytes += piece.size();
  }
  header.hash = hash_of(header, pieces);
  pieces.insert(
      pieces.begin(),
      std::string_view(reinterpret_cast<const char*>(&header), sizeof(header)));
  try {
    write_pieces(fd_, pieces);
    if (sync_ && ::fdatasync(fd_) != 0) {
      throw SystemError(with_errno("[ps.log] sync"));
    }
  } catch (...) {
    // A half record would hide those after it.
    static_cast<void>(::ftruncate(fd_, static_cast<off_t>(bytes_)));
    throw;
  }
  bytes_ += sizeof(header) + header.bytes;
}

void CommandLog::begin_snapshot() {
  abort_snapshot();
  const fs::path part = path_of(generation_ + 1, kUnfinished);
  snapshot_fd_ =
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (snapshot_fd_ < 0) {
    throw SystemError(with_errno("[ps.log] " + part.string()));
  }
  open_log(generation_ + 1);
}

void CommandLog::write_snapshot(std::string_view bytes) {
  write_pieces(snapshot_fd_, {bytes});
}

void CommandLog::commit_snapshot() {
  if (sync_ && ::fdatasync(snapshot_fd_) != 0) {
    throw SystemError(with_errno("[ps.log] sync"));
  }
  ::close(snapshot_fd_);
  snapshot_fd_ = -1;
  fs::rename(
      path_of(generation_, kUnfinished), path_of(generation_, kSnapshot));
  snapshot_ = generation_;
  remove_before(snapshot_);
}

void CommandLog::abort_snapshot() {
  if (snapshot_fd_ >= 0) {
    ::close(snapshot_fd_);
    snapshot_fd_ = -1;
    std::error_code ignored;
    fs::remove(path_of(generation_, kUnfinished), ignored);
  }
}

void CommandLog::remove_before(std::uint64_t generation) const {
  for (const char* ending : {kLog, kSnapshot, kUnfinished}) {
    for (const std::uint64_t old : generations(ending)) {
      if (old < generation) {
        std::error_code ignored;
        fs::remove(path_of(old, ending), ignored);
      }
    }
  }
}

void CommandLog::clear() {
  abort_snapshot();
  // The snapshot first: a log without its snapshot would be replayed alone.
  const std::uint64_t last = generation_;
  for (const char* ending : {kLog, kSnapshot}) {
    for (const std::uint64_t old : generations(ending)) {
      fs::remove(path_of(old, ending));
    }
  }
  snapshot_ = 0;
  open_log(last + 1);
}

} // namespace argosy::ps
