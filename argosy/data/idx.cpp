#include "argosy/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>

#include "argosy/common/error.h"

namespace argosy::data {

namespace {

constexpr std::uint8_t kUnsignedByte = 8;

// zlib also reads files that are not compressed.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path)
      : name_(path.string()), file_(::gzopen(name_.c_str(), "rbe")) {
    if (file_ == nullptr) {
      throw SystemError(with_errno(str("[data.idx] ", name_)));
    }
    // zlib suggests 64 or 128 KB for speed; its default is 8 KB.
    ::gzbuffer(file_, 1U << 17);
  }
  ~GzipFile() { ::gzclose(file_); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  const std::string& name() const { return name_; }

  // Reads up to `size` bytes; fewer only at the end of the file.
  std::vector<std::uint8_t> read(std::size_t size) {
    constexpr std::size_t kStep = std::size_t{1} << 24;
    std::vector<std::uint8_t> bytes;
    // Grows as bytes arrive: the size in a corrupt header may be huge.
    while (bytes.size() < size) {
      const std::size_t before = bytes.size();
      const std::size_t step = std::min(kStep, size - before);
      bytes.resize(before + step);
      const std::size_t got = read_some(bytes.data() + before, step);
      bytes.resize(before + got);
      if (got < step) {
        break;
      }
    }
    return bytes;
  }

 private:
  std::size_t read_some(std::uint8_t* out, std::size_t size) {
    const int got = ::gzread(file_, out, static_cast<unsigned>(size));
    // A truncated file gives no negative count, only an error afterwards.
    int error = Z_OK;
    const char* text = ::gzerror(file_, &error);
    if (error == Z_ERRNO) {
      throw SystemError(with_errno(str("[data.idx] ", name_)));
    }
    if (got < 0 || error != Z_OK) {
      throw SystemError(str("[data.idx] ", name_, ": ", text));
    }
    return static_cast<std::size_t>(got);
  }

  std::string name_;
  ::gzFile file_;
};

std::vector<std::uint8_t> read_exactly(GzipFile& file, std::size_t size) {
  auto bytes = file.read(size);
  ARGOSY_CHECK(
      bytes.size() == size,
      "[data.idx] {}: ends after {} bytes of a part, expected {}",
      file.name(),
      bytes.size(),
      size);
  return bytes;
}

std::vector<std::int64_t> read_shape(GzipFile& file) {
  const auto magic = read_exactly(file, 4);
  ARGOSY_CHECK(
      magic[0] == 0 && magic[1] == 0 && magic[2] == kUnsignedByte &&
          magic[3] > 0,
      "[data.idx] {}, offset 0: bytes {} {} {} {}, expected 0 0 8 and the "
      "number of dimensions",
      file.name(),
      int{magic[0]},
      int{magic[1]},
      int{magic[2]},
      int{magic[3]});
  const auto bytes = read_exactly(file, std::size_t{4} * magic[3]);
  std::vector<std::int64_t> shape;
  for (std::size_t at = 0; at < bytes.size(); at += 4) {
    // Sizes are big-endian, whatever the host is.
    shape.push_back(
        std::int64_t{bytes[at]} << 24 | bytes[at + 1] << 16 |
        bytes[at + 2] << 8 | bytes[at + 3]);
  }
  return shape;
}

std::size_t num_values(
    const std::vector<std::int64_t>& shape, const std::string& name) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) {
    // The header comes from the file: its product may not fit.
    const auto factor = static_cast<std::size_t>(extent);
    ARGOSY_CHECK(
        factor == 0 ||
            count <= std::numeric_limits<std::size_t>::max() / factor,
        "[data.idx] {}: the header's sizes overflow, expected an array that "
        "fits memory",
        name);
    count *= factor;
  }
  return count;
}

} // namespace

IdxArray read_idx(const std::filesystem::path& path) {
  GzipFile file(path);
  IdxArray array{read_shape(file), {}};
  array.values = read_exactly(file, num_values(array.shape, file.name()));
  ARGOSY_CHECK(
      file.read(1).empty(),
      "[data.idx] {}: has more data after its {} values, expected its end",
      file.name(),
      array.values.size());
  return array;
}

IdxImages::IdxImages(
    const std::filesystem::path& images, const std::filesystem::path& labels)
    : images_(std::make_shared<const IdxArray>(read_idx(images))),
      labels_(std::make_shared<const IdxArray>(read_idx(labels))) {
  ARGOSY_CHECK(
      images_->shape.size() == 3,
      "[data.idx] {}: {} dimensions, expected 3",
      images.string(),
      images_->shape.size());
  ARGOSY_CHECK(
      labels_->shape.size() == 1 && labels_->shape[0] == images_->shape[0],
      "[data.idx] {}: {} values, expected a label for each of the {} images of "
      "{}",
      labels.string(),
      labels_->values.size(),
      images_->shape[0],
      images.string());
}

ImageSample IdxImages::get(std::int64_t index) const {
  ARGOSY_CHECK(
      index >= 0 && index < size(),
      "[data.idx] image {}, expected 0 to {}",
      index,
      size() - 1);
  const auto area = static_cast<std::size_t>(rows() * columns());
  const auto place = static_cast<std::size_t>(index);
  return {
      std::span(images_->values).subspan(place * area, area),
      rows(),
      columns(),
      labels_->values[place]};
}

} // namespace argosy::data
