#include "argosy/checkpoint/convert/safetensors_writer.h"

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "argosy/checkpoint/convert/plan.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/fs/transfer.h"

namespace argosy::checkpoint {

namespace {

std::vector<OutputPiece> whole_tensors(
    const TensorSet& set, const std::vector<std::size_t>& indices) {
  std::vector<OutputPiece> pieces;
  for (const std::size_t index : indices) {
    const SourceTensor& tensor = set.tensors[index];
    pieces.push_back({&tensor, dtensor::whole(tensor.info.shape)});
  }
  return pieces;
}

std::vector<TensorInfo> infos_of(const TensorSet& set) {
  std::vector<TensorInfo> infos;
  for (const SourceTensor& tensor : set.tensors) {
    infos.push_back(tensor.info);
  }
  return infos;
}

std::string digits5(std::size_t number) {
  std::string text = std::to_string(number);
  return text.size() < 5 ? std::string(5 - text.size(), '0') + text : text;
}

std::string shard_name(std::size_t index, std::size_t count) {
  return count == 1 ? "model.safetensors"
                    : "model-" + digits5(index + 1) + "-of-" + digits5(count) +
          ".safetensors";
}

// Readers of Hugging Face look for it.
const std::map<std::string, std::string>& format_metadata() {
  static const std::map<std::string, std::string> metadata{{"format", "pt"}};
  return metadata;
}

} // namespace

SafetensorsHeader write_pieces(
    const std::vector<OutputPiece>& pieces,
    std::map<std::string, std::string> metadata,
    const fs::Location& file,
    ChunkCopier& copier,
    const OnChunk& on_chunk) {
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const TensorInfo& info = pieces[i].tensor->info;
    infos.push_back({info.name, info.dtype, pieces[i].box.size});
    by_name[info.name] = i;
  }
  SafetensorsHeader header = lay_out(std::move(infos), std::move(metadata));
  const auto out = create_file(file, header.file_bytes);
  copier.begin_file(fs::base_name(file.path));
  write_bytes(*out, header_bytes(header));
  for (const StoredTensor& stored : header.tensors) {
    const std::size_t index = by_name.at(stored.info.name);
    const auto width =
        static_cast<std::int64_t>(element_bytes(stored.info.dtype));
    copier.copy(
        *pieces[index].tensor,
        pieces[index].box,
        [&](std::int64_t begin, std::int64_t end, std::span<std::byte> bytes) {
          if (on_chunk) {
            const auto skip = static_cast<std::uint64_t>(begin * width);
            on_chunk(index, begin, end, stored.offset + skip, bytes);
          }
          write_bytes(*out, bytes);
        });
  }
  commit(*out);
  return header;
}

void write_safetensors(
    const TensorSet& set,
    const fs::Location& file,
    const CopyContext& context) {
  ChunkCopier copier(context, set.tensor_bytes());
  std::vector<std::size_t> all(set.tensors.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  write_pieces(whole_tensors(set, all), format_metadata(), file, copier);
}

void write_hugging_face(
    const TensorSet& set,
    const fs::Location& folder,
    std::uint64_t most_bytes,
    const CopyContext& context) {
  const auto files = plan_shards(infos_of(set), most_bytes);
  create_folder(folder);
  Cleanup cleanup(folder);
  ChunkCopier copier(context, set.tensor_bytes());
  nlohmann::json index{
      {"metadata", {{"total_size", set.tensor_bytes()}}},
      {"weight_map", nlohmann::json::object()}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = shard_name(i, files.size());
    for (const std::size_t tensor : files[i]) {
      index["weight_map"][set.tensors[tensor].info.name] = name;
    }
    write_pieces(
        whole_tensors(set, files[i]),
        format_metadata(),
        below(folder, name),
        copier);
  }
  if (files.size() > 1) {
    fs::write_text(
        below(folder, kIndexName),
        index.dump(2) + "\n",
        Deadline::after(std::chrono::minutes(2)));
  }
  cleanup.keep();
}

} // namespace argosy::checkpoint
