#include "argosy/ps/worker/table_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/modules/embedding.h>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/memoryless.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/tensor_tag.h"
#include "argosy/torch_hooks/wrapper_tensor.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::ps {

struct TableParameters::State {
  // Makes the tables if nobody has.
  std::uint32_t id_of(std::size_t index) {
    if (!is_made) {
      ARGOSY_CHECK(
          maker, "[ps.lookup] table '{}' was not made yet", tables[index].name);
      maker();
    }
    return tables[index].id;
  }

  std::shared_ptr<Session> session;
  bool init_in_server = true;
  std::vector<Table> tables{};
  bool is_made = false;
  std::function<void()> maker{};
};

namespace {

// Attached to a parameter that stands for a table.
struct TableTag {
  std::shared_ptr<TableParameters::State> state;
  std::size_t index = 0; // among its tables
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
  const at::Tensor rows = tag.state->session->lookup(
      tag.state->id_of(tag.index),
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
  const at::Tensor rows = tag.state->session->lookup_bag(
      tag.state->id_of(tag.index),
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

// Frees the weight's memory, for all who hold it.
void release(const std::string& name, const at::Tensor& weight) {
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
  ParameterMarks marks = marks_of(weight);
  marks.on_servers = true;
  set_marks(weight, marks);
}

std::uint32_t make_table(
    Session& session,
    const TableParameters::Table& table,
    const TableParameterOptions& options) {
  ARGOSY_CHECK(
      !session.has_table(table.name),
      "[ps.set_param_ps] there is a table '{}' already, expected models whose "
      "embeddings have other names",
      table.name);
  SparseConfig config =
      embedding_config(static_cast<int>(table.weight.size(1)), options.rule);
  config.name = table.name;
  config.shard_num = options.shard_num > 0
      ? options.shard_num
      : default_shard_num(session.client().options().shape.num_regions());
  config.unknown_key = UnknownKey::InitialValues;
  return session.add_table(config, options.cache);
}

using Visit = std::function<void(
    const std::string& name, const at::Tensor& parameter, bool is_weight)>;

// All parameters, with the names of named_parameters(), and whether each is the
// weight of an embedding.
void visit_parameters(torch::nn::Module& module, const Visit& visit) {
  module.apply([&](const std::string& path, torch::nn::Module& part) {
    for (const auto& item : part.named_parameters(false)) {
      if (item.value().defined()) {
        visit(
            path.empty() ? item.key() : path + "." + item.key(),
            item.value(),
            is_embedding(part) && item.key() == "weight");
      }
    }
  });
}

} // namespace

TableParameters::TableParameters(
    torch::nn::Module& module,
    std::shared_ptr<Session> session,
    const std::function<bool(const std::string& name)>& choose,
    bool init_in_server)
    : state_(
          std::make_shared<State>(State{std::move(session), init_in_server})) {
  const bool keeps =
      !init_in_server && state_->session->client().options().worker == 0;
  visit_parameters(
      module,
      [&](const std::string& name, const at::Tensor& weight, bool is_weight) {
        if (!(choose ? choose(name) : is_weight) || is_table(weight)) {
          return; // a weight that modules share is one table
        }
        ARGOSY_CHECK(
            is_weight,
            "[ps.set_param_ps] {} is not the weight of an Embedding or an "
            "EmbeddingBag",
            name);
        const at::Tensor values = keeps ? weight.detach() : at::Tensor();
        release(name, weight);
        torch_hooks::set_tag(weight, TableTag{state_, state_->tables.size()});
        state_->tables.push_back({name, weight, 0, values});
      });
}

const std::vector<TableParameters::Table>& TableParameters::tables() const {
  return state_->tables;
}

void TableParameters::make(const OptionsOf& options_of) {
  ARGOSY_CHECK(!is_made(), "[ps.set_param_ps] the tables were made before");
  for (Table& table : state_->tables) {
    table.id = make_table(*state_->session, table, options_of(table));
    if (!state_->init_in_server) {
      state_->session->set_rows(table.id, table.values);
      table.values = at::Tensor();
    }
  }
  state_->is_made = true;
  state_->maker = nullptr;
}

bool TableParameters::is_made() const {
  return state_->is_made;
}

void TableParameters::set_maker(std::function<void()> maker) {
  state_->maker = std::move(maker);
}

bool is_table(const at::Tensor& parameter) {
  return parameter.defined() &&
      torch_hooks::find_tag<TableTag>(parameter) != nullptr;
}

std::vector<std::string> embedding_weights(torch::nn::Module& module) {
  std::vector<std::string> names;
  visit_parameters(
      module, [&](const std::string& name, const at::Tensor&, bool is_weight) {
        if (is_weight) {
          names.push_back(name);
        }
      });
  return names;
}

std::vector<std::string> set_param_ps(
    torch::nn::Module& module,
    const std::shared_ptr<Session>& session,
    const TableParameterOptions& options) {
  TableParameters parameters(
      module, session, options.choose, options.init_in_server);
  ARGOSY_CHECK(
      !parameters.tables().empty(),
      "[ps.set_param_ps] no parameter of the model is chosen");
  parameters.make([&](const auto&) { return options; });
  std::vector<std::string> names;
  for (const auto& table : parameters.tables()) {
    names.push_back(table.name);
  }
  return names;
}

} // namespace argosy::ps
