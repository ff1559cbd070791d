#include "argosy/torch_hooks/split_backward.h"

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
#include "argosy/torch_hooks/graph_walk.h"
#include "argosy/torch_hooks/saved_tensors.h"
#include "argosy/torch_hooks/split_nodes.h"

// A node is live if the gradient of an input depends on it. Each half runs the
// autograd engine once, on a graph reduced to what it computes: the edges
// between live nodes in the first half, all others in the second. The engine
// runs nodes in the order of their sequence numbers, which both halves keep, so
// it accumulates gradients in the same order as a whole backward.
namespace argosy::torch_hooks {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;

namespace {

// The roots of a backward and their gradients.
struct Roots {
  edge_list edges;
  Tensors gradients;

  void add(Edge edge, at::Tensor gradient) {
    edges.push_back(std::move(edge));
    gradients.push_back(std::move(gradient));
  }
};

// A live node that computes weight gradients in the second half.
struct DeferredNode {
  std::shared_ptr<Node> node;
  edge_list edges;   // by output; without edges to live nodes
  Tensors gradients; // its inputs, recorded in the first half
};

// Weight gradients that a live node computed in the first half.
struct Computed {
  std::uint64_t sequence_nr = 0;
  edge_list edges;
  std::shared_ptr<GradientSink> gradients;
};

// Collects the gradients of the inputs.
class InputSinks {
 public:
  explicit InputSinks(const Tensors& inputs) : indices_(inputs.size(), kNone) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined() || !inputs[i].requires_grad()) {
        continue;
      }
      const Edge edge = torch::autograd::impl::gradient_edge(inputs[i]);
      leaves_.push_back(edge.function);
      // A tensor may be passed as input twice; both share one sink.
      const auto [found, is_new] = ends_.try_emplace(edge.function.get());
      if (is_new) {
        found->second = kept_->replace(edge);
      }
      indices_[i] = found->second.input_nr;
    }
  }

  // Returns the edge that replaces an edge to an input; null for other edges.
  const Edge* find(const Edge& edge) const {
    const auto found = ends_.find(edge.function.get());
    return found == ends_.end() ? nullptr : &found->second;
  }

  // Recomputation looks up these nodes; nothing else keeps them alive once the
  // graph is cut.
  const std::vector<std::shared_ptr<Node>>& leaves() const { return leaves_; }

  Tensors take() {
    const Tensors kept = kept_->take();
    Tensors gradients(indices_.size());
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      if (indices_[i] != kNone) {
        gradients[i] = kept[indices_[i]];
      }
    }
    return gradients;
  }

 private:
  static constexpr auto kNone = std::numeric_limits<std::size_t>::max();

  const std::shared_ptr<GradientSink> kept_ = make_node<GradientSink>();
  std::vector<std::shared_ptr<Node>> leaves_;
  std::unordered_map<Node*, Edge> ends_; // by the leaf's node
  std::vector<std::size_t> indices_;     // by input: its index in kept_
};

// Whether the node computes its gradients independently of each other and only
// on request. A node with a post hook is excluded: the hook would run in both
// halves.
// LibTorch's generated nodes skip the gradient of an output whose edge is
// invalid, so a node with its weight's edge cut does not compute that product.
// The names are those of LibTorch; ColumnLinear is tensor_parallel's.
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

// One pass over the nodes that the roots reach. The topological number of a
// node is larger than that of every node that its edges lead to.
std::unordered_set<Node*> live_nodes(
    const edge_list& roots, const InputSinks& ends) {
  const auto reachable = reachable_nodes(roots);
  std::vector<Node*> nodes(reachable.begin(), reachable.end());
  // Sorted so that every node comes after the nodes that it leads to.
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
    // create_graph is off and accumulate_grad on, as in Tensor::backward().
    torch::autograd::Engine::get_default_engine().execute(
        roots.edges, roots.gradients, keep_graph, false, true);
  }
}

void check_arguments(
    const Tensors& outputs, const Tensors& gradients, const Tensors& inputs) {
  ARGOSY_CHECK(
      outputs.size() == gradients.size(),
      "[pipeline.backward] {} gradients, expected one for each of {} outputs",
      gradients.size(),
      outputs.size());
  // The sinks replace edges by the node that they lead to: a leaf's node has
  // one input, that of an operation may lead to other tensors as well.
  const auto odd = std::ranges::find_if(inputs, [](const at::Tensor& each) {
    return each.defined() && !each.is_leaf();
  });
  ARGOSY_CHECK(
      odd == inputs.end(),
      "[pipeline.backward] input {} is the result of an operation, expected a "
      "leaf",
      odd - inputs.begin());
}

} // namespace

// Cuts the graph, and keeps what the second half needs.
class SplitBackward::GraphSplit {
 public:
  // Reduces the graph to the first half and returns its roots.
  Roots keep_first_half(const Roots& roots, const InputSinks& ends);
  // Changes the graph to the second half.
  void keep_second_half();
  // Returns the roots of the second half and gives up what was kept.
  Roots take();

 private:
  void cut(Node& node, const InputSinks& ends);
  bool is_live(const Edge& edge) const {
    return live_.contains(edge.function.get());
  }

  std::vector<std::shared_ptr<Node>> leaves_;
  std::unordered_set<Node*> live_;
  std::vector<std::unique_ptr<DeferredNode>> deferred_; // hooks refer to them
  std::vector<Computed> computed_;
  Roots roots_; // roots that are not live
};

Roots SplitBackward::GraphSplit::keep_first_half(
    const Roots& roots, const InputSinks& ends) {
  leaves_ = ends.leaves();
  live_ = live_nodes(roots.edges, ends);
  Roots first;
  // Roots that lead to no input belong to the second half.
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

// Decides for one live node what becomes of its edges:
//   to an input                          -> to the sink of the inputs
//   to a live node                       -> stays
//   to other nodes, node is splittable   -> cut; weight() runs the node again
//   to other nodes, node is not          -> to a sink of its own
// An edge keeps its index, which is the index of the gradient that the node
// returns for it.
void SplitBackward::GraphSplit::cut(Node& node, const InputSinks& ends) {
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
  // Deferred: runs again in the second half, with the gradients that arrived in
  // the first.
  if (has_others && is_splittable(node)) {
    deferred_.push_back(std::make_unique<DeferredNode>(
        DeferredNode{node.shared_from_this(), std::move(others), {}}));
    node.add_pre_hook(
        std::make_unique<CopyGradients>(deferred_.back()->gradients));
    return;
  }
  // The engine keeps the graph for deferred nodes; all others give up their
  // saved tensors as soon as they have run, which bounds the memory.
  node.add_post_hook(std::make_unique<ReleaseSaved>(node));
  if (!has_others) {
    return;
  }
  // Not splittable: computes all gradients in the first half. Those of weights
  // are captured, and passed on in the second half.
  Computed computed{node.sequence_nr(), {}, make_node<GradientSink>()};
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (others[i].is_valid()) {
      edges[i] = computed.gradients->replace(others[i]);
      computed.edges.push_back(std::move(others[i]));
    }
  }
  computed_.push_back(std::move(computed));
}

void SplitBackward::GraphSplit::keep_second_half() {
  live_.clear();
  for (const auto& later : deferred_) {
    later->node->pre_hooks().clear(); // they ran in the first half
    later->node->next_edges() = std::move(later->edges);
  }
}

Roots SplitBackward::GraphSplit::take() {
  // The engine wants a gradient for each root; the sources ignore theirs.
  const at::Tensor none = at::zeros({});
  Roots roots;
  const auto give = [&](std::uint64_t sequence_nr, Roots known) {
    if (!known.edges.empty()) {
      const auto node = make_node<GradientSource>(
          sequence_nr,
          std::move(known.edges),
          std::move(known.gradients),
          none);
      roots.add({node, 0}, none);
    }
  };
  // Their recorded inputs become roots of the second half.
  for (const auto& later : deferred_) {
    for (std::uint32_t i = 0; i < later->gradients.size(); ++i) {
      roots_.add({later->node, i}, std::move(later->gradients[i]));
    }
  }
  // Known gradients enter the graph through nodes with the original sequence
  // numbers, so that the engine accumulates in the original order.
  give(kRunFirst, std::move(roots_));
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
      split_ == nullptr,
      "[pipeline.backward] input() twice, expected weight() in between");
  InputSinks ends(inputs);
  auto split = std::make_unique<GraphSplit>();
  // The graph is changed from here on, also when the engine throws: it cannot
  // be used for another backward.
  const Roots first =
      split->keep_first_half(roots_of(outputs, gradients), ends);
  {
    // Recomputed layers keep their results for the second half.
    const KeepUnpacked keep;
    run(first, true);
  }
  split->keep_second_half();
  // Only after success: after an error, weight() reports that input() is
  // missing.
  split_ = std::move(split);
  return ends.take();
}

void SplitBackward::weight() {
  ARGOSY_CHECK(
      split_ != nullptr, "[pipeline.backward] weight() before input()");
  const auto split = std::move(split_);
  // The engine now frees what the deferred nodes have saved.
  run(split->take(), false);
}

} // namespace argosy::torch_hooks
