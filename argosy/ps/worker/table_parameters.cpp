#include "argosy/ps/worker/table_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/modules/embedding.h>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/memoryless.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/tensor_tag.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::ps {

namespace {

// Attached to a parameter that stands for a table.
struct TableTag {
  std::shared_ptr<Session> session;
  std::uint32_t table = 0;
};

const TableTag* tag_of(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined()
      ? torch_hooks::find_tag<TableTag>(value.toTensor())
      : nullptr;
}

// An optional tensor that is left out may be an undefined one.
bool is_given(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined();
}

void put_results(
    torch_hooks::CaughtOp& caught, std::vector<c10::IValue> results) {
  torch::jit::Stack& stack = caught.stack();
  torch::jit::drop(stack, caught.schema().arguments().size());
  for (c10::IValue& result : results) {
    stack.push_back(std::move(result));
  }
}

// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
void look_up(torch_hooks::CaughtOp& caught, const TableTag& tag) {
  const c10::IValue* arguments = caught.arguments();
  ARGOSY_CHECK(
      !arguments[3].toBool(),
      "[ps.embedding] scale_grad_by_freq of a table on servers");
  const at::Tensor rows = tag.session->lookup(
      tag.table,
      arguments[1].toTensor(),
      {.padding_idx = arguments[2].toInt(),
       .is_test = !at::GradMode::is_enabled()});
  put_results(caught, {rows});
}

// embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
//               per_sample_weights, include_last_offset, padding_idx)
void look_up_bag(torch_hooks::CaughtOp& caught, const TableTag& tag) {
  const c10::IValue* arguments = caught.arguments();
  ARGOSY_CHECK(
      !arguments[3].toBool() && !is_given(arguments[6]),
      "[ps.embedding_bag] scale_grad_by_freq or per_sample_weights of a table "
      "on servers");
  const bool has_padding =
      caught.schema().arguments().size() > 8 && arguments[8].isInt();
  const at::Tensor rows = tag.session->lookup_bag(
      tag.table,
      arguments[1].toTensor(),
      arguments[2].toTensor(),
      {.mode = static_cast<int>(arguments[4].toInt()),
       .include_last_offset = arguments[7].toBool()},
      {.padding_idx = has_padding ? arguments[8].toInt() : -1,
       .is_test = !at::GradMode::is_enabled()});
  const at::Tensor none = at::empty({0}, at::kLong);
  put_results(caught, {rows, none, none, none});
}

void catch_lookups(
    torch_hooks::CaughtOp& caught, c10::function_ref<void()> next) {
  const std::string& name = caught.schema().name();
  const bool is_bag = name == "aten::embedding_bag";
  if (is_bag || name == "aten::embedding") {
    if (const TableTag* tag = tag_of(caught.arguments()[0])) {
      is_bag ? look_up_bag(caught, *tag) : look_up(caught, *tag);
      return;
    }
  }
  next();
}

bool is_embedding(const torch::nn::Module& module) {
  return module.as<torch::nn::EmbeddingImpl>() != nullptr ||
      module.as<torch::nn::EmbeddingBagImpl>() != nullptr;
}

void make_table(
    const std::string& name,
    const at::Tensor& weight,
    const std::shared_ptr<Session>& session,
    const TableParameterOptions& options) {
  SparseConfig config =
      embedding_config(static_cast<int>(weight.size(1)), options.rule);
  config.name = name;
  config.unknown_key = UnknownKey::InitialValues;
  const std::uint32_t table = session->add_table(config, options.cache);
  torch_hooks::install_interceptor(
      torch_hooks::InterceptOrder::kTable, "set_param_ps()", &catch_lookups);
  torch_hooks::become(
      weight,
      torch_hooks::make_released(
          weight,
          str_format(
              "[ps.set_param_ps] {} is a table on parameter servers: it has "
              "no memory here",
              name)));
  torch_hooks::set_tag(weight, TableTag{session, table});
}

} // namespace

std::vector<std::string> set_param_ps(
    torch::nn::Module& module,
    const std::shared_ptr<Session>& session,
    const TableParameterOptions& options) {
  std::vector<std::string> names;
  const auto visit = [&](const std::string& path, torch::nn::Module& part) {
    for (const auto& item : part.named_parameters(false)) {
      const std::string name =
          path.empty() ? item.key() : path + "." + item.key();
      const bool is_weight = is_embedding(part) && item.key() == "weight";
      const bool chosen = options.choose ? options.choose(name) : is_weight;
      if (!chosen) {
        continue;
      }
      ARGOSY_CHECK(
          is_weight,
          "[ps.set_param_ps] {} is not the weight of an Embedding or an "
          "EmbeddingBag",
          name);
      make_table(name, item.value(), session, options);
      names.push_back(name);
    }
  };
  module.apply([&](const std::string& path, torch::nn::Module& part) {
    visit(path, part);
  });
  ARGOSY_CHECK(
      !names.empty(), "[ps.set_param_ps] no parameter of the model is chosen");
  return names;
}

} // namespace argosy::ps
