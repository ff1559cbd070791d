#include "argosy/optim/autocast.h"

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/optim/paddle_ops.h"
#include "argosy/torch_hooks/amx.h"
#include "argosy/torch_hooks/autocast.h"
#include "argosy/torch_hooks/op_casts.h"

namespace argosy::optim {

namespace {

using torch_hooks::OpCasts;

constexpr char kAten[] = "aten::";

void check(bool enabled, c10::ScalarType dtype) {
  ARGOSY_CHECK(
      !enabled || dtype == c10::kBFloat16,
      "[optim.autocast] {}, expected BFloat16: LibTorch computes with no other "
      "16-bit type on the CPU",
      c10::toString(dtype));
}

torch_hooks::Autocast settings(
    bool enabled, c10::ScalarType dtype, std::shared_ptr<const OpCasts> ops) {
  check(enabled, dtype);
  torch_hooks::Autocast autocast;
  autocast.cpu = enabled;
  autocast.ops = enabled ? std::move(ops) : nullptr;
  if (enabled) {
    torch_hooks::require_working_amx();
    autocast.cpu_dtype = dtype;
  }
  return autocast;
}

[[noreturn]] void refuse(
    const std::string& list,
    const std::string& name,
    std::vector<std::string> known) {
  for (const auto& [paddle, ops] : paddle_ops()) {
    known.push_back(paddle);
  }
  std::ranges::sort(known);
  const auto meant = nearest(name, known);
  throw InvalidArgument(str_format(
      "[optim.autocast] {} has \"{}\", which is no op of LibTorch, nor one of "
      "Paddle that is known here{}",
      list,
      name,
      meant ? ": did you mean " + *meant + "?" : ""));
}

// The ops of LibTorch that a name of a list stands for.
std::vector<std::string> ops_of(
    const std::string& list,
    const std::string& name,
    const std::vector<std::string>& known) {
  ARGOSY_CHECK(
      name != "mul",
      "[optim.autocast] {} has \"mul\", which is a matrix product in Paddle "
      "and the product of elements in LibTorch: write matmul_v2 or aten::mul",
      list);
  const auto paddle = paddle_ops().find(name);
  if (paddle != paddle_ops().end()) {
    return paddle->second;
  }
  const std::string op =
      name.starts_with(kAten) ? name.substr(sizeof(kAten) - 1) : name;
  if (!std::ranges::binary_search(known, op)) {
    refuse(list, name, known);
  }
  return {op};
}

} // namespace

AutoCastLists::AutoCastLists(
    const std::vector<std::string>& white,
    const std::vector<std::string>& black) {
  if (white.empty() && black.empty()) {
    return;
  }
  const std::vector<std::string> known = torch_hooks::op_names();
  OpCasts::Names names;
  for (const std::string& name : white) {
    for (const std::string& op : ops_of("custom_white_list", name, known)) {
      names[op] = OpCasts::To::kLower;
    }
  }
  for (const std::string& name : black) {
    for (const std::string& op : ops_of("custom_black_list", name, known)) {
      const auto listed = names.find(op);
      ARGOSY_CHECK(
          listed == names.end() || listed->second == OpCasts::To::kFloat,
          "[optim.autocast] custom_white_list and custom_black_list both have "
          "{} ({} in the black list), expected it in one of them",
          op,
          name);
      names[op] = OpCasts::To::kFloat;
    }
  }
  ops_ = std::make_shared<const OpCasts>(std::move(names));
}

AutoCast::AutoCast(
    bool enabled, c10::ScalarType dtype, const AutoCastLists& lists)
    : scope_(std::make_unique<torch_hooks::AutocastScope>(
          settings(enabled, dtype, lists.ops_))) {
  torch_hooks::begin_casts();
}

AutoCast::~AutoCast() {
  torch_hooks::end_casts();
}

} // namespace argosy::optim
