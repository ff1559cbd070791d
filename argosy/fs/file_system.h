#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/fs/error.h"

// Files and folders behind one interface: local, HDFS, S3. open() in
// argosy/fs/open.h gives one for a URL.
namespace argosy::fs {

// What a path names.
struct Entry {
  std::string name; // last component of the path
  bool is_dir = false;
  std::uint64_t bytes = 0;                        // 0 for folders
  std::chrono::system_clock::time_point modified; // zero where it is unknown

  bool operator==(const Entry&) const = default;
};

// How far a transfer is.
struct TransferState {
  std::string url;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> total_bytes;
  std::chrono::nanoseconds elapsed{};
};

// Called by the thread that transfers, once a transfer has taken two seconds
// and then twice a second, and a last time at its end.
using OnProgress = std::function<void(const TransferState&)>;

// A file's bytes in memory, for as long as the object lives.
class Mapping {
 public:
  virtual ~Mapping() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

// A file open for reading. Thread-safe. Sees the file as it was when it was
// opened, or fails: a file that is replaced meanwhile gives no mixture of both.
class Reader {
 public:
  virtual ~Reader() = default;

  virtual std::uint64_t size() const = 0;

  // Fills `into` with the bytes from `offset` on. Throws InvalidArgument if the
  // file ends before, FsError, TimeoutError.
  virtual void read_at(
      std::uint64_t offset, std::span<std::byte> into, Deadline deadline) = 0;

  // Which share of the file is in the page cache, 0 to 1, by samples; 0 where
  // files are not local. Where the kernel does not tell, 1.
  virtual double cached_share() { return 0; }

  // Maps the whole file; nullptr where files are not local. Truncating a mapped
  // file kills its readers with SIGBUS; replacing it by rename is harmless.
  virtual std::shared_ptr<const Mapping> map() { return nullptr; }

  // Returns the descriptor for callers that read by other means (O_DIRECT,
  // io_uring); -1 where files are not local. Stays this object's.
  virtual int descriptor() const { return -1; }
};

struct ReadOptions {
  OnProgress on_progress;
  // Reads past the page cache (O_DIRECT) what is aligned to kDirectAlignment in
  // memory and file, where the file system can do that. Into memory of huge
  // pages it can be several times faster.
  bool direct = false;
};

struct WriteOptions {
  // How large the file becomes, if known: a disk that is too small is then
  // refused before the first byte.
  std::optional<std::uint64_t> expected_bytes;
  // Writes past the page cache (O_DIRECT) what is aligned to kDirectAlignment
  // in memory, file and size, where the file system can do that.
  bool direct = false;
  // Whether commit() waits until the bytes survive a power cut.
  bool sync = true;
  OnProgress on_progress;
};

inline constexpr std::size_t kDirectAlignment = 4096;

// A file being written. Its bytes appear under its name all at once, in
// commit(). Destroying it without commit() leaves nothing behind; if that needs
// a server, the destructor tries for a few seconds and otherwise leaves the
// rest to sweep(). A process that is killed leaves at most a partial file,
// which list() does not show.
class Writer {
 public:
  virtual ~Writer() = default;

  // Appends. By one thread at a time.
  virtual void write(std::span<const std::byte> bytes, Deadline deadline) = 0;

  // Whether write_at() and descriptor() work: local files.
  virtual bool can_write_at() const { return false; }

  // Writes at an offset, in any order and by several threads at once. Bytes
  // never written are zero. Use it or write(), not both. Throws
  // InvalidArgument unless can_write_at().
  virtual void write_at(
      std::uint64_t offset,
      std::span<const std::byte> bytes,
      Deadline deadline);

  // Returns the descriptor of the partial file, for callers that write by other
  // means (io_uring); -1 unless can_write_at(). With `direct` it has O_DIRECT.
  virtual int descriptor() const { return -1; }

  // Makes the file appear under its name, replacing an older one. The last call
  // on this object. After an exception the name has the old or the new file,
  // never a part.
  virtual void commit(Deadline deadline) = 0;
};

// All methods are thread-safe and throw FsError, TimeoutError or
// InvalidArgument. Servers are asked again after resets, time-outs, short
// bodies and status 5xx, until the deadline; an operation that was carried out
// although its answer was lost counts as done, once.
//
// Paths use '/'. S3 has no folders: a common prefix of keys counts as one, and
// make_dirs() keeps an empty one.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Returns a path as users write it: "s3://bucket/key". For messages.
  virtual std::string url(const std::string& path) const = 0;

  // Whether files are read and written through the kernel, which caches them.
  virtual bool is_local() const { return false; }

  // Entries one level below a folder, by name, without partial files. Empty
  // if the folder does not exist. Throws FsError if it is a file.
  virtual std::vector<Entry> list(
      const std::string& folder, Deadline deadline) = 0;

  // Returns what a path names; nullopt if nothing.
  virtual std::optional<Entry> stat(
      const std::string& path, Deadline deadline) = 0;

  // Makes a folder and those above it, if missing. Throws FsError if one is a
  // file.
  virtual void make_dirs(const std::string& folder, Deadline deadline) = 0;

  // Removes a file, or a folder with all in it. Does nothing if absent.
  virtual void remove(const std::string& path, Deadline deadline) = 0;

  // Renames a file, replacing `to` atomically, or a folder, if there is no
  // `to`. On S3 this copies and then removes: each file appears complete, but a
  // folder's files one by one. Where an HDFS server cannot replace, an existing
  // `to` is removed first.
  virtual void rename(
      const std::string& from, const std::string& to, Deadline deadline) = 0;

  // Gives a file a second name without sending its bytes, replacing `to`: hard
  // link or a copy made by the server. Returns false where that is impossible.
  virtual bool link(
      const std::string& from, const std::string& to, Deadline deadline) = 0;

  virtual std::unique_ptr<Reader> open_read(
      const std::string& path, ReadOptions options, Deadline deadline) = 0;

  // The folder must exist, except where the server makes it.
  virtual std::unique_ptr<Writer> open_write(
      const std::string& path, WriteOptions options, Deadline deadline) = 0;

  // Removes partial files in a folder that nobody will commit. Local ones are
  // removed once their process is dead; on servers, those that have not changed
  // for `age`. Returns how many.
  virtual int sweep(
      const std::string& folder,
      std::chrono::seconds age,
      Deadline deadline) = 0;
};

// "a" and "b" -> "a/b"; slashes between them become one.
std::string join_path(std::string_view folder, std::string_view name);

// "/a/b/" -> "b".
std::string base_name(std::string_view path);

// "/a/b" -> "/a"; "b" -> "".
std::string parent_path(std::string_view path);

} // namespace argosy::fs
