#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "argosy/checkpoint/boxes.h"
#include "argosy/checkpoint/json_cursor.h"
#include "argosy/checkpoint/manifest.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kMostPathBytes = 4096;

// Relative and inside of the folder, whatever the file system makes of it.
bool is_safe_path(const std::string& path) {
  if (path.empty() || path.size() > kMostPathBytes || path == kManifestName) {
    return false;
  }
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    begin = end + 1;
  }
  return std::ranges::none_of(path, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f;
  });
}

class ManifestParser {
 public:
  ManifestParser(std::string_view text, const std::string& path)
      : text_(text), cursor_(text, path) {}

  Manifest run() {
    const std::initializer_list<std::string_view> fields = {
        "format",
        "version",
        "step",
        "created",
        "values",
        "layout",
        "files",
        "tensors",
        "root",
        "encryption",
        "hash"};
    const std::uint32_t found =
        cursor_.fields(fields, [&](std::size_t field) { read_field(field); });
    cursor_.require(found, fields, 8);
    cursor_.end();
    check_tensors();
    check_hash();
    return std::move(manifest_);
  }

 private:
  void read_field(std::size_t field) {
    switch (field) {
      case 0:
        if (cursor_.plain_string() != "argosy-checkpoint") {
          cursor_.fail("expected \"argosy-checkpoint\"");
        }
        break;
      case 1:
        manifest_.version = static_cast<int>(
            cursor_.integer(kManifestVersion, kManifestVersion));
        break;
      case 2:
        manifest_.step = cursor_.integer(0, INT64_MAX);
        break;
      case 3:
        manifest_.created = cursor_.string();
        break;
      case 4:
        manifest_.values = cursor_.json_object();
        break;
      case 5:
        manifest_.layout = cursor_.json_object();
        break;
      case 6:
        cursor_.array([&] { read_file_record(); });
        break;
      case 7:
        cursor_.array([&] { read_tensor(); });
        break;
      case 8:
        manifest_.root = cursor_.hash();
        break;
      case 9:
        read_encryption();
        break;
      default:
        hash_ = cursor_.hash();
    }
  }

  // What has the right form may still have another digit than was written.
  void check_hash() const {
    if (!hash_) {
      return;
    }
    const std::size_t end = text_.rfind(kManifestHashField);
    if (end == text_.npos) {
      cursor_.fail("the field \"hash\", expected it last, on its own line");
    }
    const auto hash =
        hash_bytes(std::as_bytes(std::span(text_.substr(0, end))));
    if (hash != *hash_) {
      cursor_.fail(
          str("the text is damaged (load another checkpoint): it has the hash ",
              to_hex(hash),
              ", expected ",
              to_hex(*hash_)));
    }
  }

  void read_file_record() {
    FileRecord file;
    const auto read = [&](std::size_t field) {
      if (field == 0) {
        file.path = cursor_.string();
      } else {
        file.bytes = static_cast<std::uint64_t>(cursor_.integer(0, INT64_MAX));
      }
    };
    const std::uint32_t found = cursor_.fields({"path", "bytes"}, read);
    cursor_.require(found, {"path", "bytes"}, 2);
    if (!is_safe_path(file.path)) {
      cursor_.fail(
          str("the path \"",
              file.path.substr(0, 200),
              "\", expected one inside of the checkpoint's folder"));
    }
    if (!paths_.insert(file.path).second) {
      cursor_.fail(str("the file ", file.path, " is there twice"));
    }
    manifest_.files.push_back(std::move(file));
  }

  void read_encryption() {
    Encryption encryption;
    const auto read = [&](std::size_t field) {
      const auto text = std::string(cursor_.plain_string());
      (field == 0       ? encryption.algorithm
           : field == 1 ? encryption.salt
                        : encryption.check) = text;
    };
    const std::uint32_t found =
        cursor_.fields({"algorithm", "salt", "check"}, read);
    cursor_.require(found, {"algorithm", "salt", "check"}, 3);
    if (encryption.algorithm != Encryption().algorithm) {
      cursor_.fail(
          str("the algorithm ",
              encryption.algorithm.substr(0, 40),
              ", expected ",
              Encryption().algorithm));
    }
    manifest_.encryption = std::move(encryption);
  }

  void read_tensor() {
    TensorRecord tensor;
    const auto read = [&](std::size_t field) {
      switch (field) {
        case 0:
          tensor.info.name = cursor_.string();
          break;
        case 1:
          tensor.info.dtype = read_dtype();
          break;
        case 2:
          tensor.info.shape = cursor_.shape();
          break;
        case 3:
          cursor_.array([&] { read_piece(tensor); });
          break;
        default:
          tensor.root = cursor_.hash();
      }
    };
    const std::uint32_t found =
        cursor_.fields({"name", "dtype", "shape", "pieces", "root"}, read);
    cursor_.require(found, {"name", "dtype", "shape", "pieces"}, 4);
    if (!manifest_.tensors.empty() &&
        tensor.info.name <= manifest_.tensors.back().info.name) {
      cursor_.fail(
          str("the tensor ",
              tensor.info.name,
              " behind ",
              manifest_.tensors.back().info.name,
              ", expected ascending names"));
    }
    checked_bytes(tensor.info.shape, tensor.info.dtype, cursor_);
    manifest_.tensors.push_back(std::move(tensor));
  }

  DType read_dtype() {
    try {
      return dtype_of(cursor_.plain_string());
    } catch (const CheckpointError& error) {
      cursor_.fail(error.what());
    }
  }

  void read_piece(TensorRecord& tensor) {
    PieceRecord piece;
    const auto read = [&](std::size_t field) {
      switch (field) {
        case 0:
          piece.box.offset = cursor_.shape();
          break;
        case 1:
          piece.box.size = cursor_.shape();
          break;
        case 2:
          piece.file = static_cast<std::uint32_t>(
              cursor_.integer(0, std::int64_t{UINT32_MAX}));
          break;
        case 3:
          piece.offset =
              static_cast<std::uint64_t>(cursor_.integer(0, INT64_MAX));
          break;
        case 4:
          cursor_.array([&] { piece.hashes.push_back(cursor_.hash()); });
          break;
        default:
          cursor_.array([&] { piece.tags.push_back(cursor_.hash()); });
      }
    };
    const std::uint32_t found = cursor_.fields(
        {"offset", "size", "file", "at", "hashes", "tags"}, read);
    cursor_.require(found, {"offset", "size", "file", "at", "hashes"}, 5);
    tensor.pieces.push_back(std::move(piece));
  }

  [[noreturn]] void fail_tensor(
      const TensorRecord& tensor, const std::string& what) const {
    cursor_.fail(str("the tensor ", tensor.info, ": ", what));
  }

  // What needs all fields, which may stand in any order.
  void check_tensors() const {
    for (const TensorRecord& tensor : manifest_.tensors) {
      for (const PieceRecord& piece : tensor.pieces) {
        check_piece(tensor, piece);
      }
      check_cover(tensor);
    }
  }

  void check_piece(const TensorRecord& tensor, const PieceRecord& piece) const {
    if (!is_inside(piece.box, tensor.info.shape)) {
      fail_tensor(tensor, "has a piece that is not inside of it");
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(piece.box.numel()) *
        element_bytes(tensor.info.dtype);
    if (piece.file >= manifest_.files.size()) {
      fail_tensor(
          tensor,
          str("the piece ",
              piece.box,
              " in file ",
              piece.file,
              " of ",
              manifest_.files.size()));
    }
    const FileRecord& file = manifest_.files[piece.file];
    if (bytes > file.bytes || piece.offset > file.bytes - bytes) {
      fail_tensor(
          tensor,
          str("the piece ",
              piece.box,
              " of ",
              bytes,
              " bytes from byte ",
              piece.offset,
              " on, expected inside of ",
              file.path,
              ", which has ",
              file.bytes));
    }
    const std::uint64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
    const std::uint64_t tags = manifest_.encryption ? chunks : 0;
    if (piece.hashes.size() != chunks || piece.tags.size() != tags) {
      fail_tensor(
          tensor,
          str("the piece ",
              piece.box,
              " has ",
              piece.hashes.size(),
              " hashes and ",
              piece.tags.size(),
              " tags, expected ",
              chunks,
              " and ",
              tags));
    }
  }

  void check_cover(const TensorRecord& tensor) const {
    const std::int64_t all = dtensor::numel(tensor.info.shape);
    std::int64_t left = all;
    std::vector<Box> boxes;
    for (const PieceRecord& piece : tensor.pieces) {
      const std::int64_t count = piece.box.numel();
      if (count > left) {
        fail_tensor(tensor, "its pieces overlap");
      }
      left -= count;
      if (count > 0) {
        boxes.push_back(piece.box);
      }
    }
    if (overlapping(tensor.info.shape, boxes)) {
      fail_tensor(tensor, "its pieces overlap");
    }
    if (left > 0) {
      fail_tensor(
          tensor, str("its pieces lack ", left, " of ", all, " elements"));
    }
  }

  const std::string_view text_;
  JsonCursor cursor_;
  Manifest manifest_;
  std::optional<Hash128> hash_; // of the text
  std::set<std::string> paths_;
};

} // namespace

Manifest parse_manifest(std::string_view text, const std::string& path) {
  return ManifestParser(text, path).run();
}

} // namespace argosy::checkpoint
