#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"

// MindSpore's .ckpt: a protobuf message of named tensors. Large ones are cut
// into several values of one name. Read only.
namespace argosy::compat {

struct CkptTensor {
  checkpoint::TensorInfo info;
  std::vector<std::span<const std::byte>> chunks; // in order
};

// Throws CheckpointError that names `path` and the tensor. A trailer of 17
// bytes with a CRC is skipped, not checked.
std::map<std::string, CkptTensor> parse_ckpt(
    std::span<const std::byte> bytes, const std::string& path);

} // namespace argosy::compat
