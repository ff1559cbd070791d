#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace argosy::dtensor {

struct Rule;

// What the dispatch needs to know of an op, read from its schema once.
struct OpInfo {
  enum class ArgKind : std::uint8_t {
    Tensor,  // or None
    Tensors, // a list, in which some may be None
    Key,     // integers and the like, on which a decision may depend
    Other,
  };
  struct Arg {
    ArgKind kind = ArgKind::Other;
    bool is_written = false;
    bool is_out = false; // written without being read
    std::string name;
  };
  struct Return {
    ArgKind kind = ArgKind::Other;
    int written = -1;     // the argument that it is, or -1
    bool is_view = false; // of an argument
  };

  std::string name; // "aten::add.Tensor"
  std::vector<Arg> args;
  std::vector<Return> returns;
  const Rule* rule = nullptr;
  bool is_random = false;
  bool changes_shape = false; // of the argument that it writes
  bool writes = false;
  // A formula of backward. LibTorch gives those what forward has saved, and
  // some kernels take it for granted that it is contiguous (softmax's).
  bool is_backward = false;
  bool makes_views = false;
};

// The same object for the same op, for as long as the process lives.
const OpInfo& op_info(const c10::OperatorHandle& op);

} // namespace argosy::dtensor
