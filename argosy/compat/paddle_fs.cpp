#include "argosy/compat/paddle_fs.h"

#include <algorithm>
#include <filesystem>

#include "argosy/common/text.h"
#include "argosy/compat/fs_backend.h"
#include "argosy/fs/local.h"
#include "argosy/fs/transfer.h"

namespace argosy::fleet::utils {

namespace {

using Kind = FsBackend::Kind;

constexpr std::chrono::minutes kLocalLimit(30);

class FileSystemBackend : public FsBackend {
 public:
  FileSystemBackend(
      std::shared_ptr<fs::FileSystem> files, std::chrono::milliseconds time_out)
      : files_(std::move(files)), time_out_(time_out) {}

  Kind kind(const std::string& path) override {
    const auto entry = files_->stat(path, limit());
    return !entry ? Kind::Nothing : entry->is_dir ? Kind::Folder : Kind::File;
  }
  std::vector<fs::Entry> list(const std::string& path) override {
    const auto entry = files_->stat(path, limit());
    return entry && !entry->is_dir ? std::vector{*entry}
                                   : files_->list(path, limit());
  }
  void make_dirs(const std::string& path) override {
    files_->make_dirs(path, limit());
  }
  void remove(const std::string& path) override {
    files_->remove(path, limit());
  }
  void rename(const std::string& from, const std::string& to) override {
    files_->rename(from, to, limit());
  }
  void make_empty(const std::string& path) override {
    fs::write_text({files_, path}, "", limit());
  }
  std::string read(const std::string& path) override {
    return fs::read_text({files_, path}, limit());
  }
  void upload(
      const std::string& local_path,
      const std::string& path,
      int at_once) override {
    fs::copy(
        local(local_path), {files_, path}, {.num_threads = at_once}, limit());
  }
  void download(
      const std::string& path,
      const std::string& local_path,
      int at_once) override {
    fs::copy(
        {files_, path}, local(local_path), {.num_threads = at_once}, limit());
  }
  bool always_looks() const override {
    return dynamic_cast<const fs::LocalFileSystem*>(files_.get()) != nullptr;
  }

 private:
  Deadline limit() const { return Deadline::after(time_out_); }
  static fs::Location local(const std::string& path) {
    return {std::make_shared<fs::LocalFileSystem>(), path};
  }

  const std::shared_ptr<fs::FileSystem> files_;
  const std::chrono::milliseconds time_out_;
};

// The namenode's URL for WebHDFS, or "".
std::string webhdfs_url(const HDFSClient::Configs& configs) {
  const auto value = [&](const std::string& name) {
    const auto found = configs.find(name);
    return found == configs.end() ? "" : found->second;
  };
  if (const auto address = value("dfs.namenode.http-address");
      !address.empty()) {
    const std::string user = split(value("hadoop.job.ugi") + ",", ',').front();
    return str("webhdfs://", user, user.empty() ? "" : "@", address);
  }
  for (const std::string name : {"fs.defaultFS", "fs.default.name"}) {
    const std::string url = value(name);
    if (url.starts_with("webhdfs://") || url.starts_with("swebhdfs://")) {
      const std::string user =
          split(value("hadoop.job.ugi") + ",", ',').front();
      const std::size_t host = url.find("://") + 3;
      return url.find('@') != std::string::npos || user.empty()
          ? url
          : str(url.substr(0, host), user, "@", url.substr(host));
    }
  }
  return "";
}

std::unique_ptr<FsBackend> hdfs_backend(
    const std::string& hadoop_home,
    const HDFSClient::Configs& configs,
    std::chrono::milliseconds time_out,
    std::chrono::milliseconds sleep_inter) {
  if (const std::string url = webhdfs_url(configs); !url.empty()) {
    return make_fs_backend(fs::open(url).fs, time_out);
  }
  HadoopCommand command{
      .program = hadoop_home + "/bin/hadoop",
      .time_out = time_out,
      .sleep_inter = sleep_inter};
  std::error_code ignored;
  ARGOSY_CHECK(
      std::filesystem::exists(command.program, ignored),
      "[compat.HDFSClient] no way to HDFS: {} does not exist, and configs have "
      "no dfs.namenode.http-address and no webhdfs:// URL as fs.defaultFS",
      command.program);
  for (const auto& [key, value] : configs) {
    command.flags.push_back(str("-D", key, "=", value));
  }
  return make_hadoop_backend(std::move(command));
}

// Whether to copy over: throws unless there is something to copy, and nothing
// in its way or leave to remove it.
void check_copy(
    FsBackend& from,
    const std::string& source,
    FsBackend& to,
    const std::string& target,
    bool overwrite) {
  if (from.kind(source) == Kind::Nothing) {
    throw FSFileNotExistsError(
        str("[compat.copy] ", source, " does not exist"));
  }
  if (to.kind(target) == Kind::Nothing) {
    return;
  }
  if (!overwrite) {
    throw FSFileExistsError(
        str("[compat.copy] ",
            target,
            " exists: remove it, or pass overwrite = true"));
  }
  to.remove(target);
}

std::unique_ptr<FsBackend> local_backend() {
  return make_fs_backend(std::make_shared<fs::LocalFileSystem>(), kLocalLimit);
}

} // namespace

std::unique_ptr<FsBackend> make_fs_backend(
    std::shared_ptr<fs::FileSystem> files, std::chrono::milliseconds time_out) {
  return std::make_unique<FileSystemBackend>(std::move(files), time_out);
}

FS::FS(std::unique_ptr<FsBackend> backend) : backend_(std::move(backend)) {}
FS::~FS() = default;

LocalFS::LocalFS() : FS(local_backend()) {}

HDFSClient::HDFSClient(
    const std::string& hadoop_home,
    const Configs& configs,
    int time_out,
    int sleep_inter)
    : FS(hdfs_backend(
          hadoop_home,
          configs,
          std::chrono::milliseconds(time_out),
          std::chrono::milliseconds(sleep_inter))) {}

FS::Listing FS::ls_dir(const std::string& path) {
  Listing listing;
  if (!is_exist(path)) {
    return listing;
  }
  for (const fs::Entry& entry : backend_->list(path)) {
    (entry.is_dir ? listing.dirs : listing.files).push_back(entry.name);
  }
  return listing;
}

std::vector<std::string> FS::list_dirs(const std::string& path) {
  return ls_dir(path).dirs;
}

bool FS::is_file(const std::string& path) {
  return backend_->kind(path) == Kind::File;
}

bool FS::is_dir(const std::string& path) {
  return backend_->kind(path) == Kind::Folder;
}

bool FS::is_exist(const std::string& path) {
  return backend_->kind(path) != Kind::Nothing;
}

void FS::upload(
    const std::string& local_path,
    const std::string& path,
    int multi_processes,
    bool overwrite) {
  const auto local = local_backend();
  check_copy(*local, local_path, *backend_, path, overwrite);
  backend_->upload(local_path, path, multi_processes);
}

void FS::download(
    const std::string& path,
    const std::string& local_path,
    int multi_processes,
    bool overwrite) {
  const auto local = local_backend();
  check_copy(*backend_, path, *local, local_path, overwrite);
  backend_->download(path, local_path, multi_processes);
}

void FS::upload_dir(
    const std::string& local_dir, const std::string& dest_dir, bool overwrite) {
  upload(local_dir, dest_dir, 1, overwrite);
}

void FS::mkdirs(const std::string& path) {
  if (is_file(path)) {
    throw FSFileExistsError(
        str("[compat.mkdirs] ", path, " is a file where a folder is needed"));
  }
  backend_->make_dirs(path);
}

void FS::remove(const std::string& path) {
  backend_->remove(path);
}

void FS::rename(const std::string& from, const std::string& to) {
  backend_->rename(from, to);
}

void FS::mv(
    const std::string& from,
    const std::string& to,
    bool overwrite,
    bool test_exists) {
  if (test_exists || overwrite || backend_->always_looks()) {
    if (!is_exist(from)) {
      throw FSFileNotExistsError(str("[compat.mv] ", from, " does not exist"));
    }
    if (is_exist(to)) {
      if (!overwrite) {
        throw FSFileExistsError(
            str("[compat.mv] ",
                to,
                " exists: remove it, or pass overwrite = true"));
      }
      remove(to);
    }
  }
  rename(from, to);
}

void FS::touch(const std::string& path, bool exist_ok) {
  if (is_exist(path)) {
    if (!exist_ok) {
      throw FSFileExistsError(
          str("[compat.touch] ", path, " exists: remove it, or pass exist_ok"));
    }
    return;
  }
  backend_->make_empty(path);
}

std::string FS::cat(const std::string& path) {
  return is_file(path) ? backend_->read(path) : "";
}

std::vector<FS::FileInfo> FS::list_files_info(
    const std::vector<std::string>& paths) {
  std::vector<FileInfo> found;
  for (const std::string& path : paths) {
    const Kind kind = backend_->kind(path);
    if (kind == Kind::Nothing) {
      continue;
    }
    for (const fs::Entry& entry : backend_->list(path)) {
      if (!entry.is_dir) {
        found.push_back(
            {kind == Kind::File ? path : fs::join_path(path, entry.name),
             entry.bytes});
      }
    }
  }
  return found;
}

} // namespace argosy::fleet::utils
