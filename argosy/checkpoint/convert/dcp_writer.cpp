#include "argosy/checkpoint/convert/convert.h"
#include "argosy/checkpoint/convert/copy.h"
#include "argosy/checkpoint/convert/pickle_output.h"
#include "argosy/checkpoint/convert/pickle_writer.h"
#include "argosy/checkpoint/convert/torch_archive.h"
#include "argosy/checkpoint/import/pickle_globals.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/fs/transfer.h"

// A folder of torch.distributed.checkpoint: a file of one archive of torch.save
// for each value, and `.metadata`, a pickle of data classes that says where
// they are. DCP cuts whole tensors itself when it loads.
namespace argosy::checkpoint {

namespace {

constexpr const char* kDcpFile = "__0_0.distcp";
constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kStorage = "torch.distributed.checkpoint.filesystem";
constexpr std::string_view kStep = "step";

// A value, and where its archive is in the file.
struct DcpItem {
  const PickledTensor* tensor = nullptr; // null: the step
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  // Keys of dicts, joined, as DCP flattens them.
  std::string name() const {
    return tensor == nullptr ? std::string(kStep)
        : tensor->component.empty()
        ? tensor->info.name
        : tensor->component + '.' + tensor->info.name;
  }
  Shape zeros() const { return Shape(tensor->info.shape.size(), 0); }
};

class DcpMetadata {
 public:
  explicit DcpMetadata(const std::vector<DcpItem>& items) : items_(items) {}

  std::string text() {
    begin_object(kMetadata, "Metadata");
    out_.text("state_dict_metadata");
    dict_of_items([&](const DcpItem& item) {
      out_.text(item.name());
      describe(item);
    });
    out_.text("planner_data");
    dict_of_items([&](const DcpItem& item) {
      out_.text(item.name());
      path(item);
    });
    out_.text("storage_data");
    dict_of_items([&](const DcpItem& item) {
      index(item);
      place(item);
    });
    out_.text("storage_meta");
    out_.none();
    end_object();
    return out_.finish();
  }

 private:
  // Fields and values follow, until end_object().
  void begin_object(std::string_view module, std::string_view name) {
    out_.global(module, name);
    out_.opcode(')');
    out_.opcode('\x81'); // NEWOBJ
    out_.opcode('}');
    out_.opcode('(');
  }
  void end_object() {
    out_.opcode('u');
    out_.opcode('b'); // BUILD
  }

  template <typename F>
  void dict_of_items(const F& add) {
    out_.opcode('}');
    out_.opcode('(');
    for (const DcpItem& item : items_) {
      add(item);
    }
    out_.opcode('u');
  }

  // The result of calling what was written before with one argument.
  void call_with(const std::function<void()>& argument) {
    argument();
    out_.opcode('\x85'); // TUPLE1
    out_.opcode('R');
  }

  void size(const Shape& shape) {
    out_.global("torch", "Size");
    call_with([&] { out_.tuple(shape); });
  }

  void describe(const DcpItem& item) {
    if (item.tensor == nullptr) {
      out_.global(kMetadata, "BytesStorageMetadata");
      out_.opcode(')');
      out_.opcode('\x81');
      return;
    }
    begin_object(kMetadata, "TensorStorageMetadata");
    out_.text("properties");
    properties(item.tensor->info.dtype);
    out_.text("size");
    size(item.tensor->info.shape);
    out_.text("chunks");
    out_.opcode(']');
    out_.opcode('(');
    begin_object(kMetadata, "ChunkStorageMetadata");
    out_.text("offsets");
    size(item.zeros());
    out_.text("sizes");
    size(item.tensor->info.shape);
    end_object();
    out_.opcode('e'); // APPENDS
    end_object();
  }

  // Their state is a tuple: type, layout, requires_grad, memory format, pinned.
  void properties(DType dtype) {
    out_.global(kMetadata, "TensorProperties");
    out_.opcode(')');
    out_.opcode('\x81');
    out_.opcode('(');
    out_.global("torch", torch_name(dtype));
    out_.global("torch.serialization", "_get_layout");
    call_with([&] { out_.text("torch.strided"); });
    out_.boolean(false);
    out_.global(kMetadata, "_MEM_FORMAT_ENCODING");
    call_with([&] { out_.integer(0); });
    out_.boolean(false);
    out_.opcode('t');
    out_.opcode('b');
  }

  void path(const DcpItem& item) {
    out_.opcode('(');
    if (item.tensor == nullptr) {
      out_.text(kStep);
    } else {
      if (!item.tensor->component.empty()) {
        out_.text(item.tensor->component);
      }
      out_.text(item.tensor->info.name);
    }
    out_.opcode('t');
  }

  void index(const DcpItem& item) {
    begin_object(kMetadata, "MetadataIndex");
    out_.text("fqn");
    out_.text(item.name());
    out_.text("index");
    out_.none();
    out_.text("offset");
    item.tensor == nullptr ? out_.none() : size(item.zeros());
    end_object();
  }

  void place(const DcpItem& item) {
    begin_object(kStorage, "_StorageInfo");
    out_.text("relative_path");
    out_.text(kDcpFile);
    out_.text("offset");
    out_.integer(static_cast<std::int64_t>(item.offset));
    out_.text("length");
    out_.integer(static_cast<std::int64_t>(item.bytes));
    end_object();
  }

  const std::vector<DcpItem>& items_;
  PickleOutput out_;
};

} // namespace

void write_dcp(
    const TensorSet& set,
    const fs::Location& folder,
    const CopyContext& context) {
  const PickledTensors pickled = pickled_tensors(set);
  create_folder(folder);
  Cleanup cleanup(folder);
  const auto out = create_file(below(folder, kDcpFile), set.tensor_bytes());
  ChunkCopier copier(context, set.tensor_bytes());
  copier.begin_file(kDcpFile);
  std::vector<DcpItem> items;
  std::uint64_t offset = 0;
  const auto add = [&](const PickledTensor* tensor, std::uint64_t bytes) {
    items.push_back({tensor, offset, bytes});
    offset += bytes;
  };
  for (std::size_t i = 0; i < set.tensors.size(); ++i) {
    const PickledTensor& tensor = pickled.tensors[i];
    add(&tensor, write_archive(*out, pickle_of_tensor(tensor), [&](auto& zip) {
      add_storage(zip, tensor.storage, set.tensors[i], copier);
    }));
  }
  if (pickled.nested) {
    add(nullptr,
        write_archive(*out, pickle_of_integer(set.step), [](auto&) {}));
  }
  commit(*out);
  fs::write_text(
      below(folder, kDcpName),
      DcpMetadata(items).text(),
      Deadline::after(std::chrono::minutes(2)));
  cleanup.keep();
}

} // namespace argosy::checkpoint
