#include "argosy/pipeline/split_backward.h"

// First: clang 14 wants IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "argosy/common/error.h"
#include "argosy/data_parallel/graph_walk.h"
#include "argosy/pipeline/split_nodes.h"
#include "argosy/recomputation/keep_replayed.h"

// A node is live when an input's gradient needs it. Each half runs the engine
// once, on a graph that is cut to what it computes: the edges between live
// nodes in the first, all others in the second. The engine takes nodes in the
// order of their sequence numbers, in the halves as in the whole, and so adds
// gradients up in the same order.
namespace argosy::pipeline {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;

namespace {

// Where backward begins, and with what.
struct Roots {
  edge_list edges;
  Tensors gradients;

  void add(Edge edge, at::Tensor gradient) {
    edges.push_back(std::move(edge));
    gradients.push_back(std::move(gradient));
  }
};

// A live node that computes gradients of weights in the second half.
struct Later {
  std::shared_ptr<Node> node;
  edge_list edges;   // by output; not those to live nodes
  Tensors gradients; // which came to it in the first
};

// What a live node computed for weights in the first half.
struct Computed {
  std::uint64_t sequence_nr = 0;
  edge_list edges;
  std::shared_ptr<Kept> gradients;
};

// The ends of the inputs' gradients.
class InputEnds {
 public:
  explicit InputEnds(const Tensors& inputs) : places_(inputs.size(), kNone) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined() || !inputs[i].requires_grad()) {
        continue;
      }
      const Edge edge = torch::autograd::impl::gradient_edge(inputs[i]);
      leaves_.push_back(edge.function);
      const auto [found, is_new] = ends_.try_emplace(edge.function.get());
      if (is_new) {
        found->second = kept_->end_of(edge);
      }
      places_[i] = found->second.input_nr;
    }
  }

  // In place of an edge to an input; null for another.
  const Edge* find(const Edge& edge) const {
    const auto found = ends_.find(edge.function.get());
    return found == ends_.end() ? nullptr : &found->second;
  }

  // Recomputation looks for them, which nothing else refers to once the graph
  // is cut.
  const std::vector<std::shared_ptr<Node>>& leaves() const { return leaves_; }

  Tensors take() {
    const Tensors kept = kept_->take();
    Tensors gradients(places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] != kNone) {
        gradients[i] = kept[places_[i]];
      }
    }
    return gradients;
  }

 private:
  static constexpr auto kNone = std::numeric_limits<std::size_t>::max();

  const std::shared_ptr<Kept> kept_ = make_node<Kept>();
  std::vector<std::shared_ptr<Node>> leaves_;
  std::unordered_map<Node*, Edge> ends_; // by the node of the leaf
  std::vector<std::size_t> places_;      // by input, in kept_
};

// Whether it computes each gradient by itself, at some cost, and only those
// that are asked for. A hook that comes after it would come in both halves.
bool is_splittable(const Node& node) {
  constexpr std::array<std::string_view, 12> names{
      "AddbmmBackward0",
      "AddmmBackward0",
      "AddmvBackward0",
      "BaddbmmBackward0",
      "BmmBackward0",
      "ConvolutionBackward0",
      "ConvolutionOverrideableBackward0",
      "LinearBackward0",
      "MkldnnConvolutionBackward0",
      "MkldnnLinearBackward0",
      "MmBackward0",
      "MvBackward0"};
  const std::string name = node.name();
  return node.post_hooks().empty() &&
      (std::ranges::find(names, name) != names.end() ||
       name.ends_with("::ColumnLinear>"));
}

std::unordered_set<Node*> live_nodes(
    const edge_list& roots, const InputEnds& ends) {
  const auto reachable = data_parallel::reachable_nodes(roots);
  std::vector<Node*> nodes(reachable.begin(), reachable.end());
  // Every node comes after those that it leads to.
  std::ranges::sort(nodes, {}, &Node::topological_nr);
  std::unordered_set<Node*> live;
  for (Node* node : nodes) {
    const bool is_live =
        std::ranges::any_of(node->next_edges(), [&](const Edge& edge) {
          return ends.find(edge) != nullptr ||
              live.contains(edge.function.get());
        });
    if (is_live) {
      live.insert(node);
    }
  }
  return live;
}

Roots roots_of(const Tensors& outputs, const Tensors& gradients) {
  Roots roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].requires_grad() && gradients[i].defined()) {
      roots.add(torch::autograd::impl::gradient_edge(outputs[i]), gradients[i]);
    }
  }
  return roots;
}

void run(const Roots& roots, bool keep_graph) {
  if (!roots.edges.empty()) {
    torch::autograd::Engine::get_default_engine().execute(
        roots.edges, roots.gradients, keep_graph, false, true);
  }
}

void check_arguments(
    const Tensors& outputs, const Tensors& gradients, const Tensors& inputs) {
  ARGOSY_CHECK(
      outputs.size() == gradients.size(),
      "[pipeline.backward] ",
      gradients.size(),
      " gradients, expected one for each of ",
      outputs.size(),
      " outputs");
  const auto odd = std::ranges::find_if(inputs, [](const at::Tensor& each) {
    return each.defined() && !each.is_leaf();
  });
  ARGOSY_CHECK(
      odd == inputs.end(),
      "[pipeline.backward] input ",
      odd - inputs.begin(),
      " is the result of an operation, expected a leaf");
}

} // namespace

// Cuts the graph, and then keeps what the second half needs.
class SplitBackward::PutOff {
 public:
  // Leaves the first half in the graph, and returns where that begins.
  Roots cut(const Roots& roots, const InputEnds& ends);
  // Leaves the second half.
  void turn();
  // Where the second half begins. Takes what is kept.
  Roots take();

 private:
  void cut(Node& node, const InputEnds& ends);
  bool is_live(const Edge& edge) const {
    return live_.contains(edge.function.get());
  }

  std::vector<std::shared_ptr<Node>> leaves_;
  std::unordered_set<Node*> live_;
  std::vector<std::unique_ptr<Later>> later_; // hooks refer to them
  std::vector<Computed> computed_;
  Roots roots_; // that are not live
};

Roots SplitBackward::PutOff::cut(const Roots& roots, const InputEnds& ends) {
  leaves_ = ends.leaves();
  live_ = live_nodes(roots.edges, ends);
  Roots first;
  for (std::size_t i = 0; i < roots.edges.size(); ++i) {
    const Edge& edge = roots.edges[i];
    const Edge* end = ends.find(edge);
    (end != nullptr || is_live(edge) ? first : roots_)
        .add(end != nullptr ? *end : edge, roots.gradients[i]);
  }
  for (Node* node : live_) {
    cut(*node, ends);
  }
  return first;
}

void SplitBackward::PutOff::cut(Node& node, const InputEnds& ends) {
  edge_list& edges = node.next_edges();
  edge_list others(edges.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (const Edge* end = ends.find(edges[i])) {
      edges[i] = *end;
    } else if (!is_live(edges[i])) {
      std::swap(edges[i], others[i]);
    }
  }
  const bool has_others = std::ranges::any_of(others, &Edge::is_valid);
  if (has_others && is_splittable(node)) {
    later_.push_back(std::make_unique<Later>(
        Later{node.shared_from_this(), std::move(others), {}}));
    node.add_pre_hook(
        std::make_unique<CopyGradients>(later_.back()->gradients));
    return;
  }
  node.add_post_hook(std::make_unique<Release>(node));
  if (!has_others) {
    return;
  }
  Computed computed{node.sequence_nr(), {}, make_node<Kept>()};
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (others[i].is_valid()) {
      edges[i] = computed.gradients->end_of(others[i]);
      computed.edges.push_back(std::move(others[i]));
    }
  }
  computed_.push_back(std::move(computed));
}

void SplitBackward::PutOff::turn() {
  live_.clear();
  for (const auto& later : later_) {
    later->node->pre_hooks().clear(); // they have been called
    later->node->next_edges() = std::move(later->edges);
  }
}

Roots SplitBackward::PutOff::take() {
  const at::Tensor none = at::zeros({});
  Roots roots;
  const auto give = [&](std::uint64_t sequence_nr, Roots known) {
    if (!known.edges.empty()) {
      const auto node = make_node<Given>(
          sequence_nr,
          std::move(known.edges),
          std::move(known.gradients),
          none);
      roots.add({node, 0}, none);
    }
  };
  for (const auto& later : later_) {
    for (std::uint32_t i = 0; i < later->gradients.size(); ++i) {
      roots_.add({later->node, i}, std::move(later->gradients[i]));
    }
  }
  give(kAtOnce, std::move(roots_));
  for (Computed& each : computed_) {
    give(each.sequence_nr, {std::move(each.edges), each.gradients->take()});
  }
  return roots;
}

SplitBackward::SplitBackward() = default;
SplitBackward::~SplitBackward() = default;
SplitBackward::SplitBackward(SplitBackward&& other) noexcept = default;
SplitBackward& SplitBackward::operator=(SplitBackward&& other) noexcept =
    default;

Tensors SplitBackward::input(
    const Tensors& outputs, const Tensors& gradients, const Tensors& inputs) {
  check_arguments(outputs, gradients, inputs);
  ARGOSY_CHECK(
      put_off_ == nullptr,
      "[pipeline.backward] input() twice, expected weight() in between");
  InputEnds ends(inputs);
  auto put_off = std::make_unique<PutOff>();
  const Roots first = put_off->cut(roots_of(outputs, gradients), ends);
  {
    const recomputation::KeepReplayed keep;
    run(first, true);
  }
  put_off->turn();
  put_off_ = std::move(put_off);
  return ends.take();
}

void SplitBackward::weight() {
  ARGOSY_CHECK(
      put_off_ != nullptr,
      "[pipeline.backward] weight() without what input() puts off");
  const auto put_off = std::move(put_off_);
  run(put_off->take(), false);
}

} // namespace argosy::pipeline
