#include <map>
#include <utility>

#include "argosy/checkpoint/boxes.h"
#include "argosy/checkpoint/import/pickle_globals.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/import/state_tree.h"
#include "argosy/checkpoint/import/torch_file.h"
#include "argosy/checkpoint/import/unpickler.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

// Reads `.metadata`: a pickle of data classes, each with a dict of its fields.
class DcpReader {
 public:
  explicit DcpReader(const fs::Location& folder)
      : folder_(folder),
        where_(url_of(below(folder, kDcpName))),
        metadata_(unpickle(open_source(below(folder, kDcpName)))) {}

  TensorSet read() {
    const PickleValue& tensors =
        field(*metadata_.root, "state_dict_metadata", PickleKind::kDict);
    for (std::size_t i = 0; i + 1 < tensors.items.size(); i += 2) {
      if (tensors.items[i + 1]->find("chunks") != nullptr) {
        add_tensor(key_text(*tensors.items[i]), *tensors.items[i + 1]);
      }
    }
    const PickleValue& stored =
        field(*metadata_.root, "storage_data", PickleKind::kDict);
    for (std::size_t i = 0; i + 1 < stored.items.size(); i += 2) {
      add_stored(*stored.items[i], *stored.items[i + 1]);
    }
    return finish();
  }

 private:
  struct Tensor {
    TreePath path;
    SourceTensor source;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(str("[checkpoint.dcp] ", where_, ": ", what));
  }

  const PickleValue& field(
      const PickleValue& object, std::string_view name, PickleKind kind) const {
    const PickleValue* value = object.find(name);
    if (value == nullptr || !value->is(kind)) {
      fail(str("expected a ", to_string(kind), " ", name));
    }
    return *value;
  }

  Shape sizes(const PickleValue& object, std::string_view name) const {
    Shape shape;
    for (const PickleValue* size :
         field(object, name, PickleKind::kTuple).items) {
      if (!size->is(PickleKind::kInteger) || size->integer < 0) {
        fail(str("expected numbers in ", name));
      }
      shape.push_back(size->integer);
    }
    return shape;
  }

  // The keys from the root to a value, before they were joined to one name.
  TreePath path_of(const std::string& name) const {
    const PickleValue* paths = metadata_.root->find("planner_data");
    const PickleValue* path = paths == nullptr ? nullptr : paths->find(name);
    TreePath keys;
    if (path != nullptr) {
      for (const PickleValue* key : path->items) {
        keys.push_back(key_text(*key));
      }
    }
    return keys.empty() ? TreePath{name} : keys;
  }

  void add_tensor(const std::string& name, const PickleValue& metadata) {
    const PickleValue& properties =
        field(metadata, "properties", PickleKind::kObject);
    const PickleValue* type = properties.find("dtype");
    if (type == nullptr && properties.state != nullptr &&
        !properties.state->items.empty()) {
      type = properties.state->items[0];
    }
    constexpr std::string_view kTorch = "torch.";
    const auto dtype = type != nullptr && type->text.size() > kTorch.size()
        ? dtype_of_torch(type->text.substr(kTorch.size()))
        : std::nullopt;
    if (!dtype) {
      fail(str("tensor ", name, " has elements of an unknown type"));
    }
    tensors_[name] = {
        path_of(name),
        {.info = {name, *dtype, sizes(metadata, "size")},
         .pieces = {},
         .root = std::nullopt}};
  }

  Source open_part(const PickleValue& info) {
    const std::string& path =
        field(info, "relative_path", PickleKind::kString).text;
    check_relative(path, where_);
    Source& file = files_[path];
    if (file == nullptr) {
      file = open_source(below(folder_, path));
    }
    const PickleValue* transforms = info.find("transform_descriptors");
    if (transforms != nullptr && !transforms->items.empty()) {
      fail(str(path, " is compressed, which is not read"));
    }
    const auto number = [&](std::string_view name) {
      const std::int64_t value =
          field(info, name, PickleKind::kInteger).integer;
      return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
    };
    return slice(file, number("offset"), number("length"));
  }

  void add_stored(const PickleValue& index, const PickleValue& info) {
    const std::string& name = field(index, "fqn", PickleKind::kString).text;
    TorchFile part(open_part(info));
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      set_value(values_, path_of(name), to_json(part.root()));
      return;
    }
    SourceTensor& tensor = found->second.source;
    const PickleValue& root = part.root();
    if (!root.is(PickleKind::kTensor) ||
        root.tensor->dtype != tensor.info.dtype) {
      fail(str("a part of ", name, " is no tensor of its type"));
    }
    const PickleValue* offset = index.find("offset");
    const bool whole = offset == nullptr || offset->is(PickleKind::kNone);
    tensor.pieces.push_back(piece_of_view(
        *root.tensor,
        part.storage(*root.tensor),
        whole ? Shape(tensor.info.shape.size(), 0) : sizes(index, "offset")));
  }

  void check_cover(const SourceTensor& tensor) const {
    std::vector<Box> boxes;
    for (const SourcePiece& piece : tensor.pieces) {
      const Box& box = piece.box;
      bool inside = box.offset.size() == tensor.info.shape.size() &&
          box.size.size() == tensor.info.shape.size();
      for (std::size_t d = 0; inside && d < box.size.size(); ++d) {
        inside = box.size[d] <= tensor.info.shape[d] &&
            box.offset[d] <= tensor.info.shape[d] - box.size[d];
      }
      if (!inside) {
        fail(str("a part of ", tensor.info, " lies outside of it: ", box));
      }
      boxes.push_back(box);
    }
    const Cover cover = cover_of(tensor.info.shape, boxes);
    if (cover.overlaps || !cover.missing.empty()) {
      fail(
          str("the parts of ",
              tensor.info,
              cover.overlaps ? " overlap" : " do not cover it"));
    }
  }

  TensorSet finish() {
    TensorSet set{.format = Format::Dcp, .url = url_of(folder_)};
    std::vector<TreeName> paths;
    for (const auto& [name, tensor] : tensors_) {
      paths.push_back(
          {tensor.path, tensor.source.info.shape, tensor.source.info.dtype});
    }
    const auto names = checkpoint_names(paths, count_optimized(values_));
    std::size_t i = 0;
    for (auto& [name, tensor] : tensors_) {
      check_cover(tensor.source);
      tensor.source.info.name = names[i++];
      set.tensors.push_back(std::move(tensor.source));
    }
    set.step = step_of_values(values_);
    set.values = std::move(values_);
    sort_tensors(set);
    return set;
  }

  const fs::Location folder_;
  const std::string where_;
  const Pickle metadata_;
  std::map<std::string, Tensor> tensors_; // by DCP's name
  std::map<std::string, Source> files_;
  nlohmann::json values_ = nlohmann::json::object();
};

} // namespace

TensorSet open_dcp(const fs::Location& folder) {
  return DcpReader(folder).read();
}

} // namespace argosy::checkpoint
