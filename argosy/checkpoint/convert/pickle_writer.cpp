#include "argosy/checkpoint/convert/pickle_writer.h"

#include <map>
#include <set>
#include <utility>

#include "argosy/checkpoint/convert/pickle_output.h"
#include "argosy/checkpoint/import/pickle_globals.h"

namespace argosy::checkpoint {

namespace {

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

void write_storage(PickleOutput& out, const PickledTensor& tensor) {
  const std::string_view storage = storage_class(tensor.info.dtype);
  const std::int64_t elements = dtensor::numel(tensor.info.shape);
  const auto width =
      static_cast<std::int64_t>(element_bytes(tensor.info.dtype));
  out.opcode('(');
  out.text("storage");
  if (storage.empty()) {
    out.global("torch.storage", "UntypedStorage");
  } else {
    out.global("torch", storage);
  }
  out.text(tensor.storage);
  out.text("cpu");
  out.integer(storage.empty() ? elements * width : elements);
  out.opcode('t');
  out.opcode('Q');
}

void write_tensor(PickleOutput& out, const PickledTensor& tensor) {
  const bool typed = !storage_class(tensor.info.dtype).empty();
  out.global(
      "torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out.opcode('(');
  write_storage(out, tensor);
  out.integer(0);
  out.tuple(tensor.info.shape);
  out.tuple(row_major_strides(tensor.info.shape));
  out.boolean(false);                       // requires_grad
  out.global("collections", "OrderedDict"); // hooks
  out.opcode(')');
  out.opcode('R');
  if (!typed) {
    out.global("torch", torch_name(tensor.info.dtype));
  }
  out.opcode('t');
  out.opcode('R');
}

void write_dict(
    PickleOutput& out, const std::vector<const PickledTensor*>& tensors) {
  out.opcode('(');
  for (const PickledTensor* tensor : tensors) {
    out.text(tensor->info.name);
    write_tensor(out, *tensor);
  }
  out.opcode('u');
}

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

PickledTensors pickled_tensors(const TensorSet& set) {
  PickledTensors all;
  std::set<std::string> components;
  for (std::size_t i = 0; i < set.tensors.size(); ++i) {
    all.tensors.push_back(pickled(set.tensors[i].info, i));
    components.insert(all.tensors.back().component);
  }
  all.nested = components.size() > 1 || components.count("") == 0;
  if (all.nested) {
    // The model's names came without a component.
    for (PickledTensor& tensor : all.tensors) {
      tensor.component = tensor.component.empty() ? "model" : tensor.component;
    }
  }
  return all;
}

std::string pickle_of_tensor(const PickledTensor& tensor) {
  PickleOutput out;
  write_tensor(out, tensor);
  return out.finish();
}

std::string pickle_of_integer(std::int64_t value) {
  PickleOutput out;
  out.integer(value);
  return out.finish();
}

std::string pickle_of_tensors(
    const std::vector<PickledTensor>& tensors, std::int64_t step) {
  std::map<std::string, std::vector<const PickledTensor*>> components;
  for (const PickledTensor& tensor : tensors) {
    components[tensor.component].push_back(&tensor);
  }
  PickleOutput out;
  out.opcode('}');
  for (const auto& [component, members] : components) {
    if (component.empty()) {
      write_dict(out, members);
      continue;
    }
    out.text(component);
    out.opcode('}');
    write_dict(out, members);
    out.opcode('s');
  }
  if (step >= 0) {
    out.text("step");
    out.integer(step);
    out.opcode('s');
  }
  return out.finish();
}

} // namespace argosy::checkpoint
