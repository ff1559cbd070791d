#pragma once

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/fs/file_system.h"
#include "argosy/fs/remote.h"

namespace argosy::fs {

// Where an HDFS is, and who asks.
struct WebHdfsAddress {
  std::string http; // "http://host:port"
  std::string root; // "webhdfs://host:port", for messages
  std::string user; // empty: the server's default
};

// The operations of the WebHDFS REST API, each asked until it is answered.
// Thread-safe.
class WebHdfsClient {
 public:
  using Query = std::vector<std::pair<std::string, std::string>>;

  WebHdfsClient(WebHdfsAddress address, const Environment& environment);

  std::string url(const std::string& path) const;

  // What GETFILESTATUS and LISTSTATUS say of a path; null if absent.
  nlohmann::json status(
      const std::string& path, std::string_view op, Deadline deadline);
  nlohmann::json list_status(
      const std::string& path, std::string_view op, Deadline deadline);

  void make_dirs(const std::string& path, Deadline deadline);
  void remove(const std::string& path, Deadline deadline);

  // Returns whether it was renamed. `replace` asks for OVERWRITE, which some
  // servers ignore.
  bool rename(
      const std::string& from,
      const std::string& to,
      bool replace,
      std::string_view op,
      Deadline deadline);

  // Writes a file anew.
  void create(
      const std::string& path, std::string_view body, Deadline deadline);

  // Appends to a file of `size` bytes, once: after a failure the server is
  // asked how much of it has arrived.
  void append(
      const std::string& path,
      std::uint64_t size,
      std::string_view body,
      Deadline deadline);

  std::uint64_t length(
      const std::string& path, std::string_view op, Deadline deadline);

  void read(
      const std::string& path,
      std::uint64_t offset,
      std::span<std::byte> into,
      Deadline deadline);

 private:
  std::string http_url(
      const std::string& path,
      std::string_view op,
      const Query& query = {}) const;
  RemoteAnswer ask(
      std::string_view method,
      const std::string& http_url,
      const Task& task,
      Deadline deadline);
  nlohmann::json ask_json(
      std::string_view method,
      const std::string& http_url,
      const Task& task,
      Deadline deadline);

  // Sends a body once. Throws FsError if the file system refuses it; other
  // failures are the result's.
  HttpResult send_body(
      std::string_view method,
      const std::string& http_url,
      std::string_view body,
      const Task& task,
      Deadline deadline);

  const WebHdfsAddress address_;
  Remote remote_;
};

// HDFS over WebHDFS, as namenodes and HttpFS serve it. A file is written beside
// its name and renamed at commit.
class WebHdfs : public FileSystem {
 public:
  WebHdfs(WebHdfsAddress address, const Environment& environment);

  std::string url(const std::string& path) const override;
  std::vector<Entry> list(
      const std::string& folder, Deadline deadline) override;
  std::optional<Entry> stat(
      const std::string& path, Deadline deadline) override;
  void make_dirs(const std::string& folder, Deadline deadline) override;
  void remove(const std::string& path, Deadline deadline) override;
  void rename(const std::string& from, const std::string& to, Deadline deadline)
      override;
  bool link(const std::string& from, const std::string& to, Deadline deadline)
      override;
  std::unique_ptr<Reader> open_read(
      const std::string& path, ReadOptions options, Deadline deadline) override;
  std::unique_ptr<Writer> open_write(
      const std::string& path,
      WriteOptions options,
      Deadline deadline) override;
  int sweep(
      const std::string& folder,
      std::chrono::seconds age,
      Deadline deadline) override;

 private:
  const std::shared_ptr<WebHdfsClient> client_;
  const std::uint64_t part_bytes_;
};

// Renames a file or folder once, although answers may be lost. Replaces files.
void rename_hdfs(
    WebHdfsClient& client,
    const std::string& from,
    const std::string& to,
    std::string_view op,
    Deadline deadline);

// An entry of a FileStatus object.
Entry hdfs_entry(const std::string& path, const nlohmann::json& status);

} // namespace argosy::fs
