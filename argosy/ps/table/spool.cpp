#include "argosy/ps/table/spool.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy::ps {

namespace {

void write_fully(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      throw SystemError(with_errno(
          "[ps.save] cannot write to a temporary file of the system's "
          "temporary folder"));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void read_fully(int file, std::size_t offset, std::string& into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(
        file,
        into.data() + done,
        into.size() - done,
        static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      throw SystemError(with_errno("[ps.save] cannot read a temporary file"));
    }
    done += static_cast<std::size_t>(got);
  }
}

} // namespace

Spool::Spool(std::size_t num_texts, std::size_t max_memory)
    : max_memory_(max_memory), tails_(num_texts), extents_(num_texts) {}

Spool::~Spool() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

void Spool::grown(std::size_t bytes) {
  in_memory_ += bytes;
  if (in_memory_ > max_memory_) {
    spill();
  }
}

void Spool::spill() {
  if (file_ < 0) {
    const auto folder = std::filesystem::temp_directory_path();
    file_ = open_nameless(folder);
    if (file_ < 0) {
      throw SystemError(with_errno(
          str("[ps.save] cannot make a temporary file in ", folder.string())));
    }
  }
  for (std::size_t i = 0; i < tails_.size(); ++i) {
    if (!tails_[i].empty()) {
      write_fully(file_, tails_[i]);
      extents_[i].push_back({file_bytes_, tails_[i].size()});
      file_bytes_ += tails_[i].size();
      tails_[i] = {};
    }
  }
  in_memory_ = 0;
}

void Spool::read(
    std::size_t text, const std::function<void(std::string_view)>& f) const {
  std::string part;
  for (const Extent& extent : extents_[text]) {
    part.resize(extent.bytes);
    read_fully(file_, extent.offset, part);
    f(part);
  }
  f(tails_[text]);
}

} // namespace argosy::ps
