#include "argosy/compat/rank_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "argosy/checkpoint/safetensors.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/compat/ms_ckpt.h"
#include "argosy/data/mapped_file.h"

namespace argosy::compat {

namespace {

using Entries = std::map<std::string, RankFile::Entry>;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes and returns the first run of digits or of other characters.
std::string_view take_run(std::string_view& text) {
  std::size_t end = 1;
  while (end < text.size() && is_digit(text[end]) == is_digit(text[0])) {
    ++end;
  }
  const std::string_view run = text.substr(0, end);
  text.remove_prefix(end);
  return run;
}

std::string_view without_zeros(std::string_view digits) {
  const std::size_t begin = digits.find_first_not_of('0');
  return digits.substr(std::min(begin, digits.size() - 1));
}

int compare_runs(std::string_view a, std::string_view b) {
  if (is_digit(a[0]) && is_digit(b[0])) {
    const auto left = without_zeros(a);
    const auto right = without_zeros(b);
    return left.size() != right.size() ? (left.size() < right.size() ? -1 : 1)
                                       : left.compare(right);
  }
  return a.compare(b);
}

// A file under a temporary name, which no other thread or process has; removed
// unless it is committed.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path)
      : path_(path),
        temporary_(str(path.string(), ".tmp", ::getpid(), "_", this)) {
    fd_ = ::open(
        temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    check(fd_ >= 0, "cannot be created");
  }
  ~NewFile() {
    if (fd_ >= 0) {
      ::close(fd_);
      ::unlink(temporary_.c_str());
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
      check(count > 0 || errno == EINTR, "cannot be written");
      bytes =
          bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
  }

  void commit() {
    check(::fsync(fd_) == 0, "cannot be written");
    check(
        ::rename(temporary_.c_str(), path_.c_str()) == 0, "cannot be renamed");
    ::close(fd_);
    fd_ = -1;
  }

 private:
  void check(bool ok, const char* what) const {
    if (!ok) {
      throw CheckpointError(
          with_errno(str("[checkpoint] ", path_.string(), " ", what)));
    }
  }

  std::filesystem::path path_;
  std::string temporary_;
  int fd_ = -1;
};

std::map<std::string, std::string> metadata_of(
    const std::vector<TensorSource>& tensors,
    std::map<std::string, std::string> metadata) {
  std::vector<std::pair<checkpoint::TensorInfo, checkpoint::Box>> pieces;
  for (const TensorSource& tensor : tensors) {
    if (tensor.whole) {
      pieces.emplace_back(
          checkpoint::TensorInfo{
              tensor.info.name, tensor.info.dtype, *tensor.whole},
          tensor.box);
    }
  }
  if (!pieces.empty()) {
    metadata.merge(checkpoint::piece_metadata(pieces));
  }
  return metadata;
}

} // namespace

struct RankFile::Impl {
  std::string path;
  std::unique_ptr<data::MappedFile> file;
  std::vector<std::vector<std::byte>> joined; // tensors of several chunks
  Entries tensors;
  std::map<std::string, std::string> metadata;

  void read_safetensors() {
    const auto bytes = file->bytes();
    const std::string_view text(
        reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (bytes.size() < 8) {
      throw CheckpointError(
          str("[checkpoint] ", path, ": ", bytes.size(), " bytes, not a file"));
    }
    const auto header = checkpoint::parse_header(
        text.substr(
            0, checkpoint::header_size(bytes.first(8), bytes.size(), path)),
        bytes.size(),
        path);
    for (const auto& tensor : header.tensors) {
      tensors[tensor.info.name] = {
          tensor.info, bytes.subspan(tensor.offset, tensor.bytes)};
    }
    metadata = header.metadata;
  }

  void read_ckpt() {
    for (const auto& [name, tensor] : parse_ckpt(file->bytes(), path)) {
      tensors[name] = {tensor.info, bytes_of_chunks(tensor.chunks)};
    }
  }

  std::span<const std::byte> bytes_of_chunks(
      const std::vector<std::span<const std::byte>>& chunks) {
    if (chunks.size() == 1) {
      return chunks[0];
    }
    auto& whole = joined.emplace_back();
    for (const auto chunk : chunks) {
      whole.insert(whole.end(), chunk.begin(), chunk.end());
    }
    return whole;
  }
};

RankFile::RankFile(const std::filesystem::path& path)
    : impl_(std::make_unique<Impl>()) {
  impl_->path = path.string();
  if (!std::filesystem::is_regular_file(path)) {
    throw CheckpointError(str("[checkpoint] ", impl_->path, ": no such file"));
  }
  impl_->file = std::make_unique<data::MappedFile>(path);
  if (path.extension() == ".ckpt") {
    impl_->read_ckpt();
  } else {
    impl_->read_safetensors();
  }
}

RankFile::~RankFile() = default;
RankFile::RankFile(RankFile&&) noexcept = default;
RankFile& RankFile::operator=(RankFile&&) noexcept = default;

const std::string& RankFile::path() const {
  return impl_->path;
}

const Entries& RankFile::tensors() const {
  return impl_->tensors;
}

const std::map<std::string, std::string>& RankFile::metadata() const {
  return impl_->metadata;
}

const RankFile::Entry* RankFile::find(const std::string& name) const {
  const auto found = impl_->tensors.find(name);
  return found == impl_->tensors.end() ? nullptr : &found->second;
}

std::size_t bytes_of(const checkpoint::TensorInfo& info) {
  return static_cast<std::size_t>(dtensor::numel(info.shape)) *
      checkpoint::element_bytes(info.dtype);
}

void write_rank_file(
    const std::filesystem::path& path,
    std::vector<TensorSource> tensors,
    std::map<std::string, std::string> metadata) {
  std::map<std::string, const TensorSource*> sources;
  std::vector<checkpoint::TensorInfo> infos;
  for (const TensorSource& tensor : tensors) {
    sources[tensor.info.name] = &tensor;
    infos.push_back(tensor.info);
  }
  const auto header = checkpoint::lay_out(
      std::move(infos), metadata_of(tensors, std::move(metadata)));
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
  }
  NewFile file(path);
  const std::string first = checkpoint::header_bytes(header);
  file.write(std::as_bytes(std::span(first)));
  std::vector<std::byte> buffer;
  for (const auto& tensor : header.tensors) {
    buffer.assign(tensor.bytes, std::byte{0});
    sources.at(tensor.info.name)->fill(buffer);
    file.write(buffer);
  }
  file.commit();
}

bool natural_less(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (const int order = compare_runs(take_run(a), take_run(b)); order != 0) {
      return order < 0;
    }
  }
  return a.size() < b.size();
}

std::optional<std::filesystem::path> last_file_of(
    const std::filesystem::path& folder) {
  for (const char* extension : {".safetensors", ".ckpt"}) {
    std::optional<std::filesystem::path> last;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().extension() == extension &&
          (!last ||
           natural_less(
               last->filename().string(), entry.path().filename().string()))) {
        last = entry.path();
      }
    }
    if (last) {
      return last;
    }
  }
  return std::nullopt;
}

} // namespace argosy::compat
