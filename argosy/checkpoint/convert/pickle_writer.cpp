#include "argosy/checkpoint/convert/pickle_writer.h"

#include <map>

#include "argosy/checkpoint/import/little_endian.h"
#include "argosy/checkpoint/import/pickle_globals.h"

namespace argosy::checkpoint {

namespace {

// Emits opcodes of protocol 2.
class PickleOutput {
 public:
  PickleOutput() { out_ = "\x80\x02"; }

  void opcode(char code) { out_.push_back(code); }
  void global(std::string_view module, std::string_view name) {
    out_.append("c").append(module).append("\n").append(name).append("\n");
  }
  void text(std::string_view text) {
    opcode('X');
    append_number(out_, static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  void boolean(bool value) { opcode(value ? '\x88' : '\x89'); }
  void integer(std::int64_t value) {
    opcode('\x8a'); // LONG1
    opcode(8);
    append_number(out_, value);
  }
  void tuple(const Shape& values) {
    opcode('(');
    for (const std::int64_t value : values) {
      integer(value);
    }
    opcode('t');
  }
  std::string finish() {
    opcode('.');
    return std::move(out_);
  }

 private:
  std::string out_;
};

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

} // namespace

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
