#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace argosy::data {

// An array of unsigned bytes from an IDX file, the format of MNIST.
struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values; // as many as the shape says
};

// Reads a plain or a gzip-compressed file. Throws SystemError when it cannot be
// read or decompressed, InvalidArgument, with the file and what was expected,
// when it is no IDX file of unsigned bytes or its length differs from its
// header.
IdxArray read_idx(const std::filesystem::path& path);

// A picture in grey and what it shows.
struct ImageSample {
  std::span<const std::uint8_t> pixels; // row by row; lives with its dataset
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t label = 0;
};

// Pictures and labels from a pair of IDX files, in memory; a dataset for
// DataLoader. Copies share the data.
class IdxImages {
 public:
  // Throws as read_idx(), and InvalidArgument when the two do not belong
  // together.
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
