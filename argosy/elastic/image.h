#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "argosy/checkpoint/manifest.h"
#include "argosy/checkpoint/state.h"
#include "argosy/comm/ops.h"

// State of training in memory, as a checkpoint has it in files. Not installed.
namespace argosy::elastic {

class Image {
 public:
  Image() = default;

  // Of what a step changes before the optimizer steps: a copy.
  static Image of_compute(checkpoint::State& state, int rank);
  // Of all: refers to the state's tensors, which must be whole on this rank.
  static Image of_all(checkpoint::State& state, int rank);

  // Puts it into the state that it is of, or one that is built alike.
  void put_into(checkpoint::State& state, int rank, int size) const;

  // The tensors and bytes of this image, for another process of this rank.
  std::string record() const;
  // Takes these instead of those of another rank. Values stay.
  void take_record(const std::string& record);

  // `source` sends its image of all to the other members of the group. All of
  // them call it; blocks. Throws InternalError if what came has another hash.
  void broadcast(int source, const GroupPtr& group);

 private:
  enum class Extent { Compute, All };

  void set(const checkpoint::Contents& contents, bool copies);
  std::string header() const;
  void read_header(const std::string& text);
  std::string hash() const;

  Extent extent_ = Extent::Compute;
  std::map<std::string, at::Tensor> tensors_; // contiguous
  nlohmann::json values_ = nlohmann::json::object();
};

} // namespace argosy::elastic
