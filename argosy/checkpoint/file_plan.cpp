#include "argosy/checkpoint/file_plan.h"

#include <map>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

std::string path_of_file(int rank, bool is_frozen, std::size_t number) {
  std::string digits = std::to_string(rank);
  digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
  return str(
      "rank-", digits, is_frozen ? "-frozen-" : "-", number, ".safetensors");
}

FilePlan plan_file(
    const std::vector<TensorInfo>& tensors,
    const std::vector<PlannedWrite>& writes,
    const std::vector<std::size_t>& members) {
  std::vector<TensorInfo> infos;
  std::vector<std::pair<TensorInfo, Box>> pieces;
  std::map<std::string, std::size_t> by_name;
  for (const std::size_t index : members) {
    const PlannedWrite& write = writes[index];
    const TensorInfo& whole = tensors[write.tensor];
    infos.push_back({whole.name, whole.dtype, write.box.size});
    pieces.emplace_back(whole, write.box);
    by_name[whole.name] = index;
  }
  FilePlan file;
  file.header = lay_out(std::move(infos), piece_metadata(pieces));
  for (const StoredTensor& stored : file.header.tensors) {
    file.writes.push_back(by_name.at(stored.info.name));
  }
  return file;
}

} // namespace

std::vector<FilePlan> plan_files(
    const std::vector<TensorInfo>& tensors,
    const std::vector<bool>& frozen,
    const std::vector<PlannedWrite>& writes,
    int rank) {
  // The k-th piece of a tensor goes to the k-th file.
  std::map<std::uint32_t, std::size_t> num_pieces;
  std::map<std::pair<bool, std::size_t>, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const std::size_t number = num_pieces[writes[i].tensor]++;
    members[{frozen[writes[i].tensor], number}].push_back(i);
  }
  std::vector<FilePlan> files;
  for (const auto& [key, indices] : members) {
    files.push_back(plan_file(tensors, writes, indices));
    files.back().frozen = key.first;
    files.back().path = path_of_file(rank, key.first, key.second);
  }
  return files;
}

} // namespace argosy::checkpoint
