#include <utility>

#include "argosy/checkpoint/convert/convert.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::string_view kModel = "model/";

} // namespace

TensorSet renamed(TensorSet set, const NameRules& rules) {
  if (rules.empty()) {
    return set;
  }
  std::vector<SourceTensor> kept;
  for (SourceTensor& tensor : set.tensors) {
    auto name = rules.apply(tensor.info.name);
    if (name) {
      tensor.info.name = std::move(*name);
      // Roots are of values, types and shapes, and not of names.
      kept.push_back(std::move(tensor));
    }
  }
  set.tensors = std::move(kept);
  set.root.reset(); // it is of other names
  sort_tensors(set);
  return set;
}

TensorSet for_export(TensorSet set, bool all) {
  std::vector<SourceTensor> kept;
  for (SourceTensor& tensor : set.tensors) {
    const bool of_model =
        tensor.info.name.compare(0, kModel.size(), kModel) == 0;
    if (of_model) {
      tensor.info.name.erase(0, kModel.size());
    }
    if (of_model || all) {
      kept.push_back(std::move(tensor));
    }
  }
  if (kept.empty()) {
    throw CheckpointError(
        str("[checkpoint.convert] ",
            set.url,
            " has no tensors of a model (\"model/...\"); rules can rename "
            "others, or take all components"));
  }
  set.tensors = std::move(kept);
  set.root.reset();
  sort_tensors(set);
  return set;
}

} // namespace argosy::checkpoint
