#include "argosy/checkpoint/inspect/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/manifest.h"
#include "argosy/checkpoint/safetensors.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::uint64_t kMostManifestText = std::uint64_t{4} << 30;
constexpr std::uint64_t kMostHeaderText = 100'000'100;

Manifest read_manifest(const fs::Location& folder) {
  const Source text = open_source(below(folder, kManifestName));
  return parse_manifest(text->read_all(kMostManifestText), text->name());
}

// Whether two texts are equal, or the same JSON.
bool is_same_json(const std::string& a, const std::string& b) {
  const auto parsed = [](const std::string& text) {
    return nlohmann::json::parse(text, nullptr, false);
  };
  return a == b || (!parsed(a).is_discarded() && parsed(a) == parsed(b));
}

class Verifier {
 public:
  Verifier(
      const fs::Location& folder,
      const Cipher* cipher,
      const OnConvert& on_progress)
      : folder_(folder),
        cipher_(cipher),
        on_progress_(on_progress),
        manifest_(read_manifest(folder)),
        buffer_(kChunkBytes) {
    progress_.total = manifest_.tensor_bytes();
    report_.step = manifest_.step;
    report_.tensors = manifest_.tensors.size();
    report_.roots_unreadable = manifest_.encryption && cipher == nullptr;
  }

  VerifyReport run() {
    for (const FileRecord& record : manifest_.files) {
      files_.push_back(open_file(record));
    }
    check_headers();
    for (TensorRecord& tensor : manifest_.tensors) {
      verify_tensor(tensor);
    }
    verify_root();
    return std::move(report_);
  }

 private:
  void add(Damage damage) { report_.damages.push_back(std::move(damage)); }

  Source open_file(const FileRecord& record) {
    try {
      const Source file = open_source(below(folder_, record.path));
      if (file->size() != record.bytes) {
        add(
            {record.path,
             "",
             std::min(file->size(), record.bytes),
             0,
             str("has ", file->size(), " bytes, expected ", record.bytes)});
      }
      return file;
    } catch (const CheckpointError& error) {
      add({record.path, "", 0, record.bytes, error.what()});
      return nullptr;
    }
  }

  // What readers of safetensors files see must be what the manifest says.
  void check_headers() {
    using Place = std::tuple<std::string, std::uint64_t, DType, Shape>;
    for (std::uint32_t f = 0; f < files_.size(); ++f) {
      if (files_[f] == nullptr ||
          files_[f]->size() != manifest_.files[f].bytes) {
        continue;
      }
      std::vector<Place> expected;
      std::vector<std::pair<TensorInfo, Box>> pieces;
      for (const TensorRecord& tensor : manifest_.tensors) {
        for (const PieceRecord& piece : tensor.pieces) {
          if (piece.file == f) {
            expected.emplace_back(
                tensor.info.name,
                piece.offset,
                tensor.info.dtype,
                piece.box.size);
            pieces.emplace_back(tensor.info, piece.box);
          }
        }
      }
      check_header(f, std::move(expected), piece_metadata(pieces));
    }
  }

  template <typename Place>
  void check_header(
      std::uint32_t f,
      std::vector<Place> expected,
      const std::map<std::string, std::string>& metadata) {
    const std::string& path = manifest_.files[f].path;
    try {
      std::string first(8, '\0');
      files_[f]->read(0, std::as_writable_bytes(std::span(first)));
      const std::uint64_t bytes =
          header_size(std::as_bytes(std::span(first)), files_[f]->size(), path);
      const SafetensorsHeader header = parse_header(
          slice(files_[f], 0, bytes)->read_all(kMostHeaderText),
          files_[f]->size(),
          path);
      std::vector<Place> found;
      for (const StoredTensor& stored : header.tensors) {
        found.emplace_back(
            stored.info.name,
            stored.offset,
            stored.info.dtype,
            stored.info.shape);
      }
      std::sort(found.begin(), found.end());
      std::sort(expected.begin(), expected.end());
      if (found != expected) {
        add({path, "", 0, bytes, "its header is not that of the manifest"});
      }
      for (const auto& [key, text] : metadata) {
        const auto at = header.metadata.find(key);
        if (at == header.metadata.end() || !is_same_json(at->second, text)) {
          add(
              {path,
               "",
               0,
               bytes,
               str("its header has another \"", key, "\", expected ", text)});
        }
      }
    } catch (const CheckpointError& error) {
      add({path, "", 0, 0, error.what()});
    }
  }

  void verify_tensor(TensorRecord& tensor) {
    BlockSums sums(tensor.info);
    bool complete = !report_.roots_unreadable;
    for (const PieceRecord& piece : tensor.pieces) {
      ++report_.pieces;
      complete = verify_piece(tensor, piece, sums) && complete;
    }
    if (!complete || !tensor.root) {
      return;
    }
    ++report_.roots;
    if (sums.root() != *tensor.root) {
      add(
          {kManifestName,
           tensor.info.name,
           0,
           0,
           str("its values have the root ",
               to_hex(sums.root()),
               ", expected ",
               to_hex(*tensor.root))});
    }
  }

  // Whether all chunks are as they were written.
  bool verify_piece(
      const TensorRecord& tensor, const PieceRecord& piece, BlockSums& sums) {
    const Source& file = files_[piece.file];
    const std::uint64_t width = element_bytes(tensor.info.dtype);
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(piece.box.numel()) * width;
    progress_.what = manifest_.files[piece.file].path;
    bool good = file != nullptr;
    for (std::uint64_t from = 0; from < bytes; from += kChunkBytes) {
      const auto chunk = std::span(buffer_).first(
          std::min<std::uint64_t>(kChunkBytes, bytes - from));
      if (file != nullptr && read_chunk(tensor, piece, from, chunk)) {
        add_to(sums, piece.box, from / width, chunk, width);
      } else {
        good = false;
      }
      progress_.bytes += chunk.size();
      if (on_progress_) {
        on_progress_(progress_);
      }
    }
    return good;
  }

  bool read_chunk(
      const TensorRecord& tensor,
      const PieceRecord& piece,
      std::uint64_t from,
      std::span<std::byte> chunk) {
    if (piece.offset + from + chunk.size() > files_[piece.file]->size()) {
      return false; // open_file() has told it of the whole file
    }
    const std::size_t index = from / kChunkBytes;
    Damage damage{
        manifest_.files[piece.file].path,
        tensor.info.name,
        piece.offset + from,
        chunk.size(),
        ""};
    try {
      files_[piece.file]->read(piece.offset + from, chunk);
      report_.bytes += chunk.size();
      if (hash_bytes(chunk) != piece.hashes.at(index)) {
        damage.what = "the bytes do not have their hash";
      } else if (cipher_ != nullptr && !piece.tags.empty()) {
        cipher_->decrypt(
            piece.file, piece.offset + from, chunk, piece.tags.at(index));
      }
    } catch (const Error& error) {
      damage.what = error.what();
    }
    if (damage.what.empty()) {
      return true;
    }
    add(std::move(damage));
    return false;
  }

  void add_to(
      BlockSums& sums,
      const Box& box,
      std::uint64_t begin,
      std::span<const std::byte> chunk,
      std::uint64_t width) {
    if (!report_.roots_unreadable) {
      sums.add(
          box,
          static_cast<std::int64_t>(begin),
          static_cast<std::int64_t>(begin + chunk.size() / width),
          chunk.data());
    }
  }

  void verify_root() {
    if (!manifest_.root) {
      return;
    }
    ++report_.roots;
    const auto root = root_of(manifest_);
    if (root != manifest_.root) {
      add(
          {kManifestName,
           "",
           0,
           0,
           "the root of the checkpoint is not that of its tensors"});
    }
  }

  const fs::Location folder_;
  const Cipher* cipher_;
  const OnConvert& on_progress_;
  Manifest manifest_;
  std::vector<Source> files_; // null if it cannot be opened
  std::vector<std::byte> buffer_;
  Progress progress_;
  VerifyReport report_;
};

} // namespace

VerifyReport verify_checkpoint(
    const fs::Location& folder,
    const Cipher* cipher,
    const OnConvert& on_progress) {
  return Verifier(folder, cipher, on_progress).run();
}

} // namespace argosy::checkpoint
