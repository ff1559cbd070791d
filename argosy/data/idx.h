#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace argosy::data {

// An array of unsigned bytes from an IDX file, MNIST's format.
struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values; // their number is the product of the shape
};

// Reads a plain or gzip-compressed file. Throws SystemError when the file
// cannot be read or decompressed, and InvalidArgument, naming the file and what
// was expected, when it is not an IDX file of unsigned bytes or its length
// contradicts its header.
IdxArray read_idx(const std::filesystem::path& path);

// A greyscale image and its label.
struct ImageSample {
  // Row-major; valid while the dataset lives.
  std::span<const std::uint8_t> pixels;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t label = 0;
};

// A dataset of images and labels in memory, read from a pair of IDX files.
// Copies share the data. Thread-safe.
class IdxImages {
 public:
  // Throws as read_idx(), and InvalidArgument when the numbers of images and
  // labels differ.
  IdxImages(
      const std::filesystem::path& images, const std::filesystem::path& labels);

  std::int64_t size() const { return images_->shape[0]; }
  std::int64_t rows() const { return images_->shape[1]; }
  std::int64_t columns() const { return images_->shape[2]; }

  ImageSample get(std::int64_t index) const;

 private:
  std::shared_ptr<const IdxArray> images_;
  std::shared_ptr<const IdxArray> labels_;
};

} // namespace argosy::data
