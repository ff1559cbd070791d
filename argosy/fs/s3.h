#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/fs/file_system.h"
#include "argosy/fs/remote.h"

namespace argosy::fs {

// A bucket, and how to reach it.
struct S3Address {
  std::string bucket;
  std::string endpoint; // "https://host[:port]"
  std::string region;
  std::string key_id; // empty: requests are not signed
  std::string secret;
  std::string session_token;
  std::string certificates;     // file; empty: the system's
  std::uint64_t part_bytes = 0; // of a multipart upload
};

// From AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or
// AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
// AWS_SESSION_TOKEN, AWS_CA_BUNDLE and ARGOSY_FS_PART.
S3Address s3_address(const std::string& bucket, const Environment& environment);

// What an object is.
struct S3Object {
  std::string key;
  std::uint64_t bytes = 0;
  std::string etag;
  std::string upload_id; // which upload of ours made it, or ""
  std::chrono::system_clock::time_point modified;
};

// A page of keys.
struct S3Listing {
  std::vector<S3Object> objects;
  std::vector<std::string> prefixes; // up to the delimiter
  std::string next;                  // token of the next page; "": none
};

// Reads the answer of ListObjectsV2. Pure.
S3Listing parse_s3_listing(std::string_view xml);

// The operations of S3's REST API, each asked until it is answered.
// Thread-safe.
class S3Client {
 public:
  S3Client(S3Address address, const Environment& environment);

  const S3Address& address() const { return address_; }
  std::string url(const std::string& key) const;

  std::optional<S3Object> head(
      const std::string& key, std::string_view op, Deadline deadline);

  struct ListQuery {
    std::string prefix;
    std::string delimiter;
    int max_keys = 1000;
    std::string token;
  };
  S3Listing list(
      const ListQuery& query, std::string_view op, Deadline deadline);

  void put(const std::string& key, std::string_view body, Deadline deadline);
  void remove(const std::string& key, Deadline deadline);
  // Copies an object of this bucket, at most kLargestCopy bytes.
  void copy(
      const std::string& from,
      const std::string& to,
      std::string_view op,
      Deadline deadline);
  void read(
      const S3Object& object,
      std::uint64_t offset,
      std::span<std::byte> into,
      Deadline deadline);

  // Multipart uploads. `mark` is kept with the object, so that complete() knows
  // its own.
  std::string begin_upload(
      const std::string& key, const std::string& mark, Deadline deadline);
  // Returns the part's ETag. Numbers begin with 1.
  std::string put_part(
      const std::string& key,
      const std::string& upload,
      int number,
      std::string_view body,
      const std::atomic<bool>& cancelled,
      Deadline deadline);
  void complete_upload(
      const std::string& key,
      const std::string& upload,
      const std::string& mark,
      const std::vector<std::string>& etags,
      Deadline deadline);
  void abort_upload(
      const std::string& key, const std::string& upload, Deadline deadline);

  struct Upload {
    std::string key;
    std::string id;
    std::chrono::system_clock::time_point began;
  };
  std::vector<Upload> uploads(const std::string& prefix, Deadline deadline);

 private:
  using Query = std::map<std::string, std::string>; // sorted, as signing needs

  HttpRequest request(
      std::string_view method,
      const std::string& key,
      const Query& query = {},
      std::string_view body = {}) const;
  HttpResult ask(HttpRequest request, const Task& task, Deadline deadline);

  const S3Address address_;
  Remote remote_;
};

// S3 and what speaks its protocol, one bucket. Paths are keys.
class S3 : public FileSystem {
 public:
  S3(S3Address address, const Environment& environment);

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
  bool is_folder(
      const std::string& path, std::string_view op, Deadline deadline);
  std::vector<S3Object> tree(
      const std::string& folder, std::string_view op, Deadline deadline);
  void copy_object(
      const S3Object& from,
      const std::string& to,
      std::string_view op,
      Deadline deadline);

  const std::shared_ptr<S3Client> client_;
};

std::unique_ptr<Writer> open_s3_writer(
    std::shared_ptr<S3Client> client,
    const std::string& key,
    const WriteOptions& options);

// What the server copies in one request.
inline constexpr std::uint64_t kLargestCopy = 5ull << 30;

} // namespace argosy::fs
