// Products of matrices. Each dim has a letter: rows m, columns n, the dim that
// is summed over k, capitals for batches. A shard of k leaves a Partial.

#include <ATen/core/Tensor.h>

#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"

namespace argosy::dtensor {

namespace {

std::vector<Strategy> mm(const OpCall& call) {
  return by_letters(call, {"mk", "kn"}, {"mn"});
}

std::vector<Strategy> bmm(const OpCall& call) {
  return by_letters(call, {"Bmk", "Bkn"}, {"Bmn"});
}

std::vector<Strategy> mv(const OpCall& call) {
  return by_letters(call, {"mk", "k"}, {"m"});
}

std::vector<Strategy> dot(const OpCall& call) {
  return by_letters(call, {"k", "k"}, {""});
}

// What is added to a product that is Partial must be Partial too, so that it is
// added once.
void make_addend_partial(
    std::vector<Strategy>& strategies, std::size_t addend) {
  for (Strategy& strategy : strategies) {
    if (strategy.outputs[0].is_partial()) {
      strategy.inputs[addend] = strategy.outputs[0];
    }
  }
}

std::vector<Strategy> with_addend(
    const OpCall& call,
    const std::string& a,
    const std::string& b,
    const std::string& out) {
  const Shape& shape = call.out_shape(0);
  if (shape.size() != out.size()) {
    return {};
  }
  auto strategies = by_letters(
      call, {broadcast_letters(out, call.shape(0), shape), a, b}, {out});
  make_addend_partial(strategies, 0);
  return strategies;
}

std::vector<Strategy> addmm(const OpCall& call) {
  return with_addend(call, "mk", "kn", "mn");
}

std::vector<Strategy> baddbmm(const OpCall& call) {
  return with_addend(call, "Bmk", "Bkn", "Bmn");
}

std::vector<Strategy> addmv(const OpCall& call) {
  return with_addend(call, "mk", "k", "m");
}

// Any number of batch dims, which are broadcast; vectors have no m or no n.
std::vector<Strategy> matmul(const OpCall& call) {
  const Shape& a = call.shape(0);
  const Shape& b = call.shape(1);
  const Shape& out = call.out_shape(0);
  if (a.empty() || b.empty()) {
    return {};
  }
  const std::string rows = a.size() > 1 ? "m" : "";
  const std::string columns = b.size() > 1 ? "n" : "";
  const std::size_t tail = rows.size() + columns.size();
  if (out.size() < tail) {
    return {};
  }
  const Shape batch(out.begin(), out.end() - static_cast<std::ptrdiff_t>(tail));
  const std::string letters = first_letters(batch.size());
  const auto batch_of = [&](const Shape& shape, std::size_t own) {
    const Shape front(
        shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(own));
    return broadcast_letters(letters, front, batch);
  };
  return by_letters(
      call,
      {batch_of(a, rows.size() + 1) + rows + "k",
       batch_of(b, columns.size() + 1) + "k" + columns},
      {letters + rows + columns});
}

// input (..., k), weight (n, k) or (k), bias (n) or ().
std::vector<Strategy> linear_strategies(const OpCall& call) {
  if (call.shape(0).empty()) {
    return {};
  }
  const std::string batch = first_letters(call.shape(0).size() - 1);
  const std::string columns = call.shape(1).size() > 1 ? "n" : "";
  auto strategies = by_letters(
      call, {batch + "k", columns + "k", columns}, {batch + columns});
  if (call.num_inputs() > 2) {
    make_addend_partial(strategies, 2);
  }
  return strategies;
}

std::vector<Shape> linear_shape(const OpCall& call) {
  Shape shape = call.shape(0);
  shape.pop_back();
  if (call.shape(1).size() > 1) {
    shape.push_back(call.shape(1)[0]);
  }
  return {shape};
}

// grad (..., n), input (..., k): the sum over all rows of their products.
std::vector<Strategy> weight_grad(const OpCall& call) {
  const std::string batch = first_letters(call.shape(0).size() - 1);
  return by_letters(call, {batch + "n", batch + "k"}, {"nk"});
}

std::vector<Shape> weight_grad_shape(const OpCall& call) {
  return {{call.shape(0).back(), call.shape(1).back()}};
}

} // namespace

void add_matmul_rules(RuleTable& table) {
  table.add("mm", {.strategies = mm});
  table.add("bmm", {.strategies = bmm});
  table.add("mv", {.strategies = mv});
  table.add("dot vdot", {.strategies = dot});
  table.add("addmm", {.strategies = addmm});
  table.add("baddbmm", {.strategies = baddbmm});
  table.add("addmv", {.strategies = addmv});
  table.add("matmul", {.strategies = matmul});
  table.add(
      "linear", {.strategies = linear_strategies, .shapes = linear_shape});
  table.add_qualified(
      "argosy::linear_weight_grad",
      {.strategies = weight_grad, .shapes = weight_grad_shape});
}

} // namespace argosy::dtensor
