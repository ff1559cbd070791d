#include <set>

#include "argosy/checkpoint/convert/convert.h"
#include "argosy/checkpoint/convert/copy.h"
#include "argosy/checkpoint/convert/pickle_writer.h"
#include "argosy/checkpoint/convert/zip_writer.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

// "optimizer/fc.weight.exp_avg" stands in the dict "optimizer".
PickledTensor pickled(const TensorInfo& info, std::size_t index) {
  PickledTensor tensor{info, "", std::to_string(index)};
  const std::size_t slash = info.name.find('/');
  if (slash != std::string::npos) {
    tensor.component = info.name.substr(0, slash);
    tensor.info.name = info.name.substr(slash + 1);
  }
  return tensor;
}

} // namespace

void write_torch(
    const TensorSet& set,
    const fs::Location& file,
    const CopyContext& context) {
  std::vector<PickledTensor> tensors;
  std::set<std::string> components;
  for (std::size_t i = 0; i < set.tensors.size(); ++i) {
    tensors.push_back(pickled(set.tensors[i].info, i));
    components.insert(tensors.back().component);
  }
  const bool nested = components.size() > 1 || components.count("") == 0;
  if (nested) {
    // The model's names came without a component.
    for (PickledTensor& tensor : tensors) {
      tensor.component = tensor.component.empty() ? "model" : tensor.component;
    }
  }
  const auto out = create_file(file, set.tensor_bytes());
  ZipWriter zip(*out);
  zip.add(
      "archive/data.pkl",
      pickle_of_tensors(tensors, nested ? set.step : std::int64_t{-1}));
  zip.add("archive/byteorder", "little");
  ChunkCopier copier(context, set.tensor_bytes());
  copier.begin_file(fs::base_name(file.path));
  for (std::size_t i = 0; i < set.tensors.size(); ++i) {
    const SourceTensor& tensor = set.tensors[i];
    zip.begin("archive/data/" + std::to_string(i), bytes_of(tensor.info));
    copier.copy(
        tensor,
        dtensor::whole(tensor.info.shape),
        [&zip](std::int64_t, std::int64_t, std::span<std::byte> bytes) {
          zip.write(bytes);
        });
  }
  zip.add("archive/version", "3\n");
  zip.finish();
  commit(*out);
}

} // namespace argosy::checkpoint
