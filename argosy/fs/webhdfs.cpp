#include "argosy/fs/webhdfs.h"

#include <algorithm>

#include "argosy/fs/partial.h"
#include "argosy/fs/progress.h"

namespace argosy::fs {

namespace {

using nlohmann::json;

constexpr int kHdfsPartMegabytes = 32;

// What tells one file from another that replaced it.
json identity(const json& status) {
  return json::array(
      {status.value("fileId", json()),
       status.value("length", json()),
       status.value("modificationTime", json())});
}

[[noreturn]] void refuse_hdfs(
    Failure failure,
    std::string_view op,
    const std::string& url,
    std::string_view what) {
  throw FsError(failure, str("[fs.", op, "] ", url, ": ", what));
}

json status_of_file(
    WebHdfsClient& client,
    const std::string& path,
    std::string_view op,
    Deadline deadline) {
  json status = client.status(path, op, deadline);
  if (!status.is_object()) {
    refuse_hdfs(
        Failure::NotFound,
        op,
        client.url(path),
        "does not exist, expected a file");
  }
  if (hdfs_entry(path, status).is_dir) {
    refuse_hdfs(
        Failure::WrongType,
        op,
        client.url(path),
        "is a folder where a file is needed");
  }
  return status;
}

class HdfsReader : public Reader {
 public:
  HdfsReader(
      std::shared_ptr<WebHdfsClient> client,
      std::string path,
      ReadOptions options,
      Deadline deadline)
      : client_(std::move(client)),
        path_(std::move(path)),
        status_(status_of_file(*client_, path_, "open_read", deadline)),
        meter_(client_->url(path_), size(), std::move(options.on_progress)) {}

  std::uint64_t size() const override {
    return status_.value("length", std::uint64_t{0});
  }

  void read_at(
      std::uint64_t offset,
      std::span<std::byte> into,
      Deadline deadline) override {
    ARGOSY_CHECK(
        into.size() <= size() && offset <= size() - into.size(),
        "[fs.read] {}: bytes {} to {} of a file that has {}",
        client_->url(path_),
        offset,
        offset + into.size(),
        size());
    if (into.empty()) {
      return;
    }
    client_->read(path_, offset, into, deadline);
    // HDFS has no reads of a certain version: see whether it is the same still.
    const json now = client_->status(path_, "read", deadline);
    if (!now.is_object() || identity(now) != identity(status_)) {
      refuse_hdfs(
          Failure::Broken,
          "read",
          client_->url(path_),
          "was replaced or changed while it was read: open it again");
    }
    meter_.add(into.size());
  }

 private:
  const std::shared_ptr<WebHdfsClient> client_;
  const std::string path_;
  const json status_;
  ProgressMeter meter_;
};

class HdfsWriter : public Writer {
 public:
  HdfsWriter(
      std::shared_ptr<WebHdfsClient> client,
      const std::string& path,
      std::uint64_t part_bytes,
      const WriteOptions& options)
      : client_(std::move(client)),
        path_(path),
        partial_(partial_path(path)),
        part_bytes_(part_bytes),
        meter_(
            client_->url(path), options.expected_bytes, options.on_progress) {}

  ~HdfsWriter() override {
    if (is_done_ || !is_created_) {
      return;
    }
    try {
      client_->remove(partial_, Deadline::after(std::chrono::seconds(5)));
    } catch (const Error&) {
      // A later sweep() removes it.
    }
  }

  void write(std::span<const std::byte> bytes, Deadline deadline) override {
    ARGOSY_CHECK(
        !is_done_, "[fs.write] {}: committed already", client_->url(path_));
    while (!bytes.empty()) {
      if (buffer_.size() == part_bytes_) {
        send(deadline);
      }
      const auto count = static_cast<std::size_t>(
          std::min<std::uint64_t>(bytes.size(), part_bytes_ - buffer_.size()));
      buffer_.append(text_of(bytes.first(count)));
      bytes = bytes.subspan(count);
    }
  }

  void commit(Deadline deadline) override {
    ARGOSY_CHECK(
        !is_done_, "[fs.commit] {}: committed already", client_->url(path_));
    send(deadline);
    const std::uint64_t length = client_->length(partial_, "commit", deadline);
    if (length != sent_) {
      refuse_hdfs(
          Failure::Broken,
          "commit",
          client_->url(path_),
          str("the server has ",
              length,
              " bytes of ",
              sent_,
              ": write the file again"));
    }
    rename_hdfs(*client_, partial_, path_, "commit", deadline);
    is_done_ = true;
    meter_.finish();
  }

 private:
  void send(Deadline deadline) {
    if (!is_created_) {
      is_created_ = true; // also if this fails half-way
      client_->create(partial_, buffer_, deadline);
    } else if (!buffer_.empty()) {
      client_->append(partial_, sent_, buffer_, deadline);
    }
    sent_ += buffer_.size();
    meter_.add(buffer_.size());
    buffer_.clear();
  }

  const std::shared_ptr<WebHdfsClient> client_;
  const std::string path_;
  const std::string partial_;
  const std::uint64_t part_bytes_;
  ProgressMeter meter_;
  std::string buffer_;     // what the server does not have yet
  std::uint64_t sent_ = 0; // what it has
  bool is_created_ = false;
  bool is_done_ = false;
};

} // namespace

Entry hdfs_entry(const std::string& path, const json& status) {
  const bool is_dir = status.value("type", "") == "DIRECTORY";
  return {
      .name = base_name(path),
      .is_dir = is_dir,
      .bytes = is_dir ? 0 : status.value("length", std::uint64_t{0}),
      .modified = std::chrono::system_clock::time_point(
          std::chrono::milliseconds(status.value("modificationTime", 0LL)))};
}

WebHdfs::WebHdfs(WebHdfsAddress address, const Environment& environment)
    : client_(std::make_shared<WebHdfsClient>(std::move(address), environment)),
      part_bytes_(part_bytes(environment, kHdfsPartMegabytes)) {}

std::string WebHdfs::url(const std::string& path) const {
  return client_->url(path);
}

std::vector<Entry> WebHdfs::list(const std::string& folder, Deadline deadline) {
  std::vector<Entry> entries;
  for (const json& each : client_->list_status(folder, "list", deadline)) {
    const std::string name = each.value("pathSuffix", "");
    if (name.empty()) { // the path itself: a file
      refuse_hdfs(
          Failure::WrongType,
          "list",
          url(folder),
          "is a file where a folder is needed");
    }
    if (!is_partial(name)) {
      entries.push_back(hdfs_entry(name, each));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.name < b.name;
  });
  return entries;
}

std::optional<Entry> WebHdfs::stat(const std::string& path, Deadline deadline) {
  const json status = client_->status(path, "stat", deadline);
  return status.is_object() ? std::optional(hdfs_entry(path, status))
                            : std::nullopt;
}

void WebHdfs::make_dirs(const std::string& folder, Deadline deadline) {
  client_->make_dirs(folder, deadline);
}

void WebHdfs::remove(const std::string& path, Deadline deadline) {
  client_->remove(path, deadline);
}

void rename_hdfs(
    WebHdfsClient& client,
    const std::string& from,
    const std::string& to,
    std::string_view op,
    Deadline deadline) {
  const json source = client.status(from, op, deadline);
  if (!source.is_object()) {
    refuse_hdfs(Failure::NotFound, op, client.url(from), "does not exist");
  }
  const bool is_dir = hdfs_entry(from, source).is_dir;
  json target = client.status(to, op, deadline);
  // HDFS would move it into a folder.
  if (target.is_object() && (is_dir || hdfs_entry(to, target).is_dir)) {
    refuse_hdfs(
        Failure::Exists,
        op,
        client.url(to),
        "is there already, and only files replace files: remove it first");
  }
  // Lost answers: it is done once the source is gone and the target is it.
  const auto is_done = [&] {
    const json now = client.status(to, op, deadline);
    return now.is_object() && identity(now) == identity(source) &&
        client.status(from, op, deadline).is_null();
  };
  if (client.rename(from, to, !is_dir, op, deadline) || is_done()) {
    return;
  }
  // A server that cannot replace.
  if (target.is_object()) {
    client.remove(to, deadline);
    if (client.rename(from, to, false, op, deadline) || is_done()) {
      return;
    }
  }
  refuse_hdfs(
      Failure::Other,
      op,
      client.url(to),
      str("the server did not rename ",
          client.url(from),
          "; expected that the folder above exists"));
}

void WebHdfs::rename(
    const std::string& from, const std::string& to, Deadline deadline) {
  rename_hdfs(*client_, from, to, "rename", deadline);
}

bool WebHdfs::link(const std::string&, const std::string&, Deadline) {
  return false; // HDFS has neither hard links nor copies by the server
}

std::unique_ptr<Reader> WebHdfs::open_read(
    const std::string& path, ReadOptions options, Deadline deadline) {
  return std::make_unique<HdfsReader>(
      client_, path, std::move(options), deadline);
}

std::unique_ptr<Writer> WebHdfs::open_write(
    const std::string& path, WriteOptions options, Deadline deadline) {
  const auto entry = stat(path, deadline);
  if (entry && entry->is_dir) {
    refuse_hdfs(
        Failure::WrongType,
        "open_write",
        url(path),
        "is a folder where a file is needed");
  }
  return std::make_unique<HdfsWriter>(client_, path, part_bytes_, options);
}

int WebHdfs::sweep(
    const std::string& folder, std::chrono::seconds age, Deadline deadline) {
  const auto limit = std::chrono::system_clock::now() - age;
  int num_removed = 0;
  for (const json& each : client_->list_status(folder, "sweep", deadline)) {
    const std::string name = each.value("pathSuffix", "");
    if (is_partial(name) && hdfs_entry(name, each).modified <= limit) {
      client_->remove(join_path(folder, name), deadline);
      ++num_removed;
    }
  }
  return num_removed;
}

} // namespace argosy::fs
