#include "argosy/fs/s3.h"

#include <algorithm>

#include "argosy/fs/partial.h"
#include "argosy/fs/progress.h"
#include "argosy/fs/transfer.h"

namespace argosy::fs {

namespace {

// "a/b" and "a/b/" -> "a/b/"; "" is the bucket itself.
std::string as_prefix(const std::string& folder) {
  return folder.empty() || folder.ends_with('/') ? folder : folder + "/";
}

[[noreturn]] void refuse_s3(
    Failure failure,
    std::string_view op,
    const std::string& url,
    std::string_view what) {
  throw FsError(failure, str("[fs.", op, "] ", url, ": ", what));
}

class S3Reader : public Reader {
 public:
  S3Reader(
      std::shared_ptr<S3Client> client, S3Object object, ReadOptions options)
      : client_(std::move(client)),
        object_(std::move(object)),
        meter_(
            client_->url(object_.key),
            object_.bytes,
            std::move(options.on_progress)) {}

  std::uint64_t size() const override { return object_.bytes; }

  void read_at(
      std::uint64_t offset,
      std::span<std::byte> into,
      Deadline deadline) override {
    ARGOSY_CHECK(
        into.size() <= size() && offset <= size() - into.size(),
        "[fs.read] {}: bytes {} to {} of a file that has {}",
        client_->url(object_.key),
        offset,
        offset + into.size(),
        size());
    client_->read(object_, offset, into, deadline);
    meter_.add(into.size());
  }

 private:
  const std::shared_ptr<S3Client> client_;
  const S3Object object_;
  ProgressMeter meter_;
};

Entry object_entry(const S3Object& object) {
  return {
      .name = base_name(object.key),
      .is_dir = false,
      .bytes = object.bytes,
      .modified = object.modified};
}

} // namespace

S3::S3(S3Address address, const Environment& environment)
    : client_(std::make_shared<S3Client>(std::move(address), environment)) {}

std::string S3::url(const std::string& path) const {
  return client_->url(path);
}

bool S3::is_folder(
    const std::string& path, std::string_view op, Deadline deadline) {
  const S3Listing page =
      client_->list({.prefix = as_prefix(path), .max_keys = 1}, op, deadline);
  return path.empty() || !page.objects.empty();
}

std::vector<Entry> S3::list(const std::string& folder, Deadline deadline) {
  const std::string prefix = as_prefix(folder);
  std::vector<Entry> entries;
  bool is_there = false;
  S3Client::ListQuery query{.prefix = prefix, .delimiter = "/"};
  do {
    const S3Listing page = client_->list(query, "list", deadline);
    for (const S3Object& object : page.objects) {
      is_there = true;
      if (object.key != prefix) { // the mark of an empty folder
        entries.push_back(object_entry(object));
      }
    }
    for (const std::string& each : page.prefixes) {
      entries.push_back({.name = base_name(each), .is_dir = true});
    }
    query.token = page.next;
  } while (!query.token.empty());
  if (entries.empty() && !is_there && !folder.empty() &&
      client_->head(folder, "list", deadline)) {
    refuse_s3(
        Failure::WrongType,
        "list",
        url(folder),
        "is a file where a folder is needed");
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.name < b.name;
  });
  return entries;
}

std::optional<Entry> S3::stat(const std::string& path, Deadline deadline) {
  if (!path.empty() && !path.ends_with('/')) {
    if (const auto object = client_->head(path, "stat", deadline)) {
      return object_entry(*object);
    }
  }
  if (is_folder(path, "stat", deadline)) {
    return Entry{.name = base_name(path), .is_dir = true};
  }
  return std::nullopt;
}

void S3::make_dirs(const std::string& folder, Deadline deadline) {
  std::vector<std::string> missing;
  for (std::string at = folder;
       !at.empty() && !is_folder(at, "make_dirs", deadline);
       at = parent_path(at)) {
    const std::string name = join_path(parent_path(at), base_name(at));
    if (client_->head(name, "make_dirs", deadline)) {
      refuse_s3(
          Failure::WrongType,
          "make_dirs",
          url(folder),
          str(url(name), " is a file where a folder is needed"));
    }
    missing.push_back(as_prefix(at));
  }
  for (const std::string& each : missing) {
    client_->put(each, "", deadline);
  }
}

std::vector<S3Object> S3::tree(
    const std::string& folder, std::string_view op, Deadline deadline) {
  std::vector<S3Object> objects;
  S3Client::ListQuery query{.prefix = as_prefix(folder)};
  do {
    S3Listing page = client_->list(query, op, deadline);
    std::move(
        page.objects.begin(), page.objects.end(), std::back_inserter(objects));
    query.token = page.next;
  } while (!query.token.empty());
  return objects;
}

void S3::remove(const std::string& path, Deadline deadline) {
  ARGOSY_CHECK(
      !path.empty(),
      "[fs.remove] {}: a whole bucket, expected a path in it",
      url(path));
  for (const S3Object& object : tree(path, "remove", deadline)) {
    client_->remove(object.key, deadline);
  }
  client_->remove(path, deadline);
}

void S3::copy_object(
    const S3Object& from,
    const std::string& to,
    std::string_view op,
    Deadline deadline) {
  if (from.bytes <= kLargestCopy) {
    client_->copy(from.key, to, op, deadline);
    return;
  }
  const auto self = std::make_shared<S3>(*this);
  fs::copy({self, from.key}, {self, to}, {}, deadline);
}

void S3::rename(
    const std::string& from, const std::string& to, Deadline deadline) {
  const auto object = client_->head(from, "rename", deadline);
  const auto objects =
      object ? std::vector{*object} : tree(from, "rename", deadline);
  if (objects.empty()) {
    refuse_s3(Failure::NotFound, "rename", url(from), "does not exist");
  }
  const auto target = stat(to, deadline);
  if (target && (target->is_dir || !object)) {
    refuse_s3(
        Failure::Exists,
        "rename",
        url(to),
        "is there already, and only files replace files: remove it first");
  }
  for (const S3Object& each : objects) {
    copy_object(each, to + each.key.substr(from.size()), "rename", deadline);
  }
  for (const S3Object& each : objects) {
    client_->remove(each.key, deadline);
  }
}

bool S3::link(
    const std::string& from, const std::string& to, Deadline deadline) {
  const auto object = client_->head(from, "link", deadline);
  if (!object) {
    refuse_s3(Failure::NotFound, "link", url(from), "does not exist");
  }
  if (object->bytes > kLargestCopy) {
    return false;
  }
  client_->copy(from, to, "link", deadline);
  return true;
}

std::unique_ptr<Reader> S3::open_read(
    const std::string& path, ReadOptions options, Deadline deadline) {
  const auto object = client_->head(path, "open_read", deadline);
  if (!object) {
    const bool is_dir = is_folder(path, "open_read", deadline);
    refuse_s3(
        is_dir ? Failure::WrongType : Failure::NotFound,
        "open_read",
        url(path),
        is_dir ? "is a folder where a file is needed"
               : "does not exist, expected a file");
  }
  return std::make_unique<S3Reader>(client_, *object, std::move(options));
}

std::unique_ptr<Writer> S3::open_write(
    const std::string& path, WriteOptions options, Deadline deadline) {
  if (path.empty() || path.ends_with('/') ||
      is_folder(path, "open_write", deadline)) {
    refuse_s3(
        Failure::WrongType,
        "open_write",
        url(path),
        "is a folder where a file is needed");
  }
  return open_s3_writer(client_, path, options);
}

int S3::sweep(
    const std::string& folder, std::chrono::seconds age, Deadline deadline) {
  const auto limit = std::chrono::system_clock::now() - age;
  const std::string prefix = as_prefix(folder);
  int num_removed = 0;
  for (const auto& upload : client_->uploads(prefix, deadline)) {
    const bool is_below =
        upload.key.find('/', prefix.size()) != std::string::npos;
    if (!is_below && upload.began <= limit) {
      client_->abort_upload(upload.key, upload.id, deadline);
      ++num_removed;
    }
  }
  return num_removed;
}

} // namespace argosy::fs
