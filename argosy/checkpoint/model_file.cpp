#include "argosy/checkpoint/model_file.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/exchange.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/import/tensor_reader.h"
#include "argosy/common/error.h"
#include "argosy/world/world.h"

namespace argosy::checkpoint {

namespace {

constexpr char kModels[] = "model/";

// Nothing runs beside these functions: they need no communicator of their own.
GroupPtr group_or_world(const GroupPtr& group) {
  return group != nullptr || current_world() == nullptr ? group : get_group(0);
}

// The tensors of a file, in the words of Request.
Manifest manifest_of(const TensorSet& set) {
  Manifest manifest;
  manifest.step = set.step;
  manifest.values = set.values;
  for (const SourceTensor& tensor : set.tensors) {
    manifest.tensors.push_back({.info = tensor.info, .pieces = {}, .root = {}});
  }
  return manifest;
}

struct Staged {
  at::Tensor values; // of the state
  at::Tensor buffer; // what was read
};

// This rank's parts of the tensors. Changes nothing.
std::vector<Staged> read_parts(const TensorSet& set, const Request& request) {
  std::vector<Staged> staged;
  TensorReader reader;
  for (const Request::Slot& slot : request.slots()) {
    const SourceTensor& tensor = set.tensors[slot.tensor];
    const auto type = scalar_type_of(tensor.info.dtype, tensor.info.name);
    for (const LocalPiece& piece : slot.pieces) {
      const at::Tensor buffer = at::empty(piece.box.size, type);
      reader.read(
          tensor,
          piece.box,
          0,
          piece.box.numel(),
          static_cast<std::byte*>(buffer.data_ptr()));
      staged.push_back({piece.values, buffer});
    }
  }
  return staged;
}

void check_found(const Request& request, const std::string& url) {
  if (request.missing().empty()) {
    return;
  }
  std::string names;
  for (const std::string& name : request.missing()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  throw CheckpointError(
      str_format("[checkpoint.load] {} lacks {}", url, names));
}

// From a format without hashes: each rank reads its parts, and none sends.
void load_foreign(const std::string& url, State& state, const Ranks& ranks) {
  const at::NoGradGuard no_grad;
  std::vector<Staged> staged;
  std::optional<Request> request;
  TensorSet set;
  Manifest manifest;
  ranks.agree("load", [&] {
    set = open_tensors(url);
    manifest = manifest_of(set);
    request.emplace(
        manifest,
        ranks.rank(),
        ranks.size(),
        Request::Selection{.wanted = {}, .rename = {}, .cast = true});
    state.request(*request);
    check_found(*request, url);
    staged = read_parts(set, *request);
  });
  for (const Staged& each : staged) {
    each.values.copy_(each.buffer);
  }
  for (const auto& action : request->actions()) {
    action();
  }
}

} // namespace

void replace(const std::string& url, State& state, const GroupPtr& group) {
  CheckpointOptions options;
  options.keep.last = 1;
  options.group = group_or_world(group);
  Checkpointer saver(url, std::move(options));
  saver.save(state, saver.newest_step().value_or(-1) + 1);
}

void load_models(const std::string& url, State& state, const GroupPtr& group) {
  const Ranks ranks(group_or_world(group));
  const std::string format = ranks.from_first(
      "load", [&] { return std::string(to_string(open_tensors(url).format)); });
  if (format != to_string(Format::Argosy)) {
    load_foreign(url, state, ranks);
    return;
  }
  load(
      url,
      state,
      {.cast = true,
       .include = {std::string(kModels) + ".*"},
       .group = ranks.group()});
}

} // namespace argosy::checkpoint
