#include <chrono>
#include <ctime>
#include <utility>

#include "argosy/checkpoint/convert/convert.h"
#include "argosy/checkpoint/convert/plan.h"
#include "argosy/checkpoint/convert/safetensors_writer.h"
#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/common/error.h"
#include "argosy/fs/transfer.h"

namespace argosy::checkpoint {

namespace {

std::string utc_now() {
  const std::time_t now =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string rank_file(std::size_t rank) {
  std::string digits = std::to_string(rank);
  digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
  return "rank-" + digits + "-0.safetensors";
}

class ArgosyWriter {
 public:
  ArgosyWriter(
      const TensorSet& set,
      const fs::Location& folder,
      const SplitOptions& split,
      const CopyContext& context)
      : set_(set),
        folder_(folder),
        cipher_(split.cipher),
        copier_(context, set.tensor_bytes()) {
    for (const SourceTensor& tensor : set.tensors) {
      manifest_.tensors.push_back({tensor.info, {}, std::nullopt});
      sums_.emplace_back(tensor.info);
    }
    manifest_.step = set.step;
    manifest_.created = utc_now();
    manifest_.values = set.values;
    manifest_.layout = {{"ranks", split.ranks}, {"converted_from", set.url}};
  }

  void write_rank(std::size_t rank, const std::vector<PlannedPiece>& plan) {
    if (plan.empty()) {
      return;
    }
    const auto file = static_cast<std::uint32_t>(manifest_.files.size());
    std::vector<OutputPiece> pieces;
    std::vector<std::pair<TensorInfo, Box>> places;
    for (const PlannedPiece& piece : plan) {
      pieces.push_back({&set_.tensors[piece.tensor], piece.box});
      places.emplace_back(set_.tensors[piece.tensor].info, piece.box);
      manifest_.tensors[piece.tensor].pieces.push_back(
          {.box = piece.box,
           .file = file,
           .offset = 0,
           .hashes = {},
           .tags = {}});
    }
    const SafetensorsHeader header = write_pieces(
        pieces,
        piece_metadata(places),
        below(folder_, rank_file(rank)),
        copier_,
        [&](std::size_t index,
            std::int64_t begin,
            std::int64_t end,
            std::uint64_t offset,
            std::span<std::byte> bytes) {
          add_chunk(plan[index], begin, end, offset, bytes);
        });
    set_offsets(header, plan);
    manifest_.files.push_back({rank_file(rank), header.file_bytes});
  }

  Manifest finish() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const Hash128 root = sums_[i].root();
      const auto& expected = set_.tensors[i].root;
      if (expected && *expected != root) {
        throw CheckpointError(
            str("[checkpoint.convert] ",
                set_.url,
                ": the values of ",
                set_.tensors[i].info.name,
                " do not have the root of the manifest; the checkpoint was "
                "damaged before it was written"));
      }
      manifest_.tensors[i].root = root;
    }
    manifest_.root = root_of(manifest_);
    if (cipher_ != nullptr) {
      manifest_.encryption = cipher_->encryption();
    }
    fs::write_text(
        below(folder_, kManifestName),
        to_text(manifest_),
        Deadline::after(std::chrono::minutes(10)));
    return std::move(manifest_);
  }

 private:
  void add_chunk(
      const PlannedPiece& piece,
      std::int64_t begin,
      std::int64_t end,
      std::uint64_t offset,
      std::span<std::byte> bytes) {
    PieceRecord& record = manifest_.tensors[piece.tensor].pieces.back();
    sums_[piece.tensor].add(piece.box, begin, end, bytes.data());
    if (cipher_ != nullptr) {
      record.tags.push_back(cipher_->encrypt(record.file, offset, bytes));
    }
    record.hashes.push_back(hash_bytes(bytes));
  }

  void set_offsets(
      const SafetensorsHeader& header, const std::vector<PlannedPiece>& plan) {
    std::map<std::string, std::uint64_t> offsets;
    for (const StoredTensor& stored : header.tensors) {
      offsets[stored.info.name] = stored.offset;
    }
    for (const PlannedPiece& piece : plan) {
      TensorRecord& record = manifest_.tensors[piece.tensor];
      record.pieces.back().offset = offsets.at(record.info.name);
    }
  }

  const TensorSet& set_;
  const fs::Location folder_;
  const Cipher* cipher_;
  ChunkCopier copier_;
  Manifest manifest_;
  std::vector<BlockSums> sums_; // by tensor
};

} // namespace

Manifest write_argosy(
    const TensorSet& set,
    const fs::Location& folder,
    const SplitOptions& split,
    const CopyContext& context) {
  std::vector<TensorInfo> infos;
  for (const SourceTensor& tensor : set.tensors) {
    infos.push_back(tensor.info);
  }
  const auto plan = plan_split(infos, split.ranks, split.dims);
  create_folder(folder);
  Cleanup cleanup(folder);
  ArgosyWriter writer(set, folder, split, context);
  for (std::size_t rank = 0; rank < plan.size(); ++rank) {
    writer.write_rank(rank, plan[rank]);
  }
  Manifest manifest = writer.finish();
  cleanup.keep();
  return manifest;
}

} // namespace argosy::checkpoint
