#include "argosy/elastic/image.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <utility>

#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/local_pieces.h"
#include "argosy/comm/codec.h"
#include "argosy/comm/objects.h"
#include "argosy/common/error.h"

namespace argosy::elastic {

namespace {

using checkpoint::Contents;
using checkpoint::Manifest;
using checkpoint::Request;
using nlohmann::json;

at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::from_blob(
      tensor.data_ptr(),
      {static_cast<std::int64_t>(tensor.nbytes())},
      at::TensorOptions(at::kByte));
}

at::Tensor box_of(const at::Tensor& whole, const checkpoint::Box& box) {
  at::Tensor part = whole;
  for (std::size_t dim = 0; dim < box.size.size(); ++dim) {
    part = part.narrow(
        static_cast<std::int64_t>(dim), box.offset[dim], box.size[dim]);
  }
  return part;
}

} // namespace

void Image::set(const Contents& contents, bool copies) {
  for (const Contents::Slot& slot : contents.slots()) {
    ARGOSY_CHECK(
        slot.pieces.size() == 1 &&
            slot.pieces[0].values.numel() ==
                dtensor::whole(slot.info.shape).numel(),
        "[elastic.run] {} is divided over ranks, expected a state that each "
        "rank has whole",
        slot.info.name);
    const at::Tensor& values = slot.pieces[0].values;
    tensors_[slot.info.name] = copies
        ? values.clone(at::MemoryFormat::Contiguous)
        : values.contiguous();
  }
  values_ = contents.values();
}

Image Image::of_compute(checkpoint::State& state, int rank) {
  const at::NoGradGuard no_grad;
  Image image;
  image.set(state.contents_of_compute(rank), true);
  return image;
}

Image Image::of_all(checkpoint::State& state, int rank) {
  const at::NoGradGuard no_grad;
  Image image;
  image.extent_ = Extent::All;
  image.set(state.contents(rank), false);
  return image;
}

void Image::put_into(checkpoint::State& state, int rank, int size) const {
  const at::NoGradGuard no_grad;
  Manifest manifest;
  manifest.values = values_;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : tensors_) {
    const auto type = checkpoint::dtype_of(tensor.scalar_type(), name);
    manifest.tensors.push_back(
        {.info = {name, type, tensor.sizes().vec()}, .pieces = {}, .root = {}});
    tensors.push_back(tensor);
  }
  Request request(manifest, rank, size, {});
  if (extent_ == Extent::Compute) {
    state.request_of_compute(request);
  } else {
    state.request(request);
  }
  ARGOSY_CHECK(
      request.missing().empty(),
      "[elastic.run] another rank has no {} in its state, expected the same "
      "state on all ranks",
      request.missing().front());
  for (const Request::Slot& slot : request.slots()) {
    for (const auto& piece : slot.pieces) {
      at::Tensor(piece.values).copy_(box_of(tensors[slot.tensor], piece.box));
    }
  }
  for (const auto& action : request.actions()) {
    action();
  }
}

std::string Image::record() const {
  return comm::encode(tensors_);
}

void Image::take_record(const std::string& record) {
  std::erase_if(tensors_, [](const auto& item) {
    return checkpoint::is_of_rank(item.first);
  });
  const auto own = comm::decode<std::map<std::string, at::Tensor>>(record);
  for (const auto& [name, tensor] : own) {
    tensors_[name] = tensor;
  }
}

std::string Image::hash() const {
  checkpoint::BytesHash hash;
  for (const auto& [name, tensor] : tensors_) {
    hash.add(std::as_bytes(std::span(
        static_cast<const char*>(tensor.data_ptr()), tensor.nbytes())));
  }
  return checkpoint::to_hex(hash.result());
}

std::string Image::header() const {
  json tensors = json::array();
  for (const auto& [name, tensor] : tensors_) {
    tensors.push_back(
        {name,
         checkpoint::to_string(
             checkpoint::dtype_of(tensor.scalar_type(), name)),
         tensor.sizes().vec()});
  }
  return json{{"tensors", tensors}, {"values", values_}, {"hash", hash()}}
      .dump();
}

void Image::read_header(const std::string& text) {
  const json header = json::parse(text);
  extent_ = Extent::All;
  values_ = header.at("values");
  tensors_.clear();
  for (const json& each : header.at("tensors")) {
    const auto name = each.at(0).get<std::string>();
    const auto type =
        checkpoint::dtype_of(std::string_view(each.at(1).get<std::string>()));
    tensors_[name] = at::empty(
        each.at(2).get<std::vector<std::int64_t>>(),
        checkpoint::scalar_type_of(type, name));
  }
}

void Image::broadcast(int source, const GroupPtr& group) {
  const bool sends = comm::is_source(source, group);
  std::vector<std::string> text{sends ? header() : ""};
  comm::broadcast_bytes(text, source, group);
  if (!sends) {
    read_header(text[0]);
  }
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.numel() > 0) {
      argosy::broadcast(bytes_of(tensor), source, group);
    }
  }
  ARGOSY_ASSERT(
      sends || json::parse(text[0]).at("hash") == hash(),
      "the state that came from rank {} has another hash than there",
      source);
}

} // namespace argosy::elastic
