#include "argosy/comm/functional.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <numeric>

#include "argosy/comm/operation/label.h"
#include "argosy/comm/shards.h"
#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"
#include "argosy/torch_hooks/graph_node.h"
#include "argosy/trace/recorded_call.h"

namespace argosy::functional {

namespace {

// Backward communicates for the same purpose as forward. T: a tensor or a list.
template <typename T, typename Forward, typename Backward>
T recorded_apply(
    const T& input, const Forward& forward, const Backward& backward) {
  return trace::recorded_apply(
      input,
      forward,
      [label = LabelScope::current(), backward](const T& gradient) -> T {
        const LabelScope scope(label);
        return backward(gradient);
      });
}

GroupPtr group_or_default(const GroupPtr& group) {
  return group ? group : get_group(0);
}

// Collectives work in place on contiguous memory; autograd's input must stay as
// it is.
at::Tensor fresh_copy(const at::Tensor& tensor) {
  return tensor.clone(at::MemoryFormat::Contiguous);
}

void check_is_sum(ReduceOp op, const char* function) {
  ARGOSY_CHECK(
      op == ReduceOp::SUM || op == ReduceOp::AVG,
      "[comm.functional.{}] {} has no gradient here, expected sum or avg",
      function,
      to_string(op));
}

// What all ranks need to have equally many rows for.
std::int64_t equal_rows(const at::Tensor& tensor, const Group& group) {
  ARGOSY_CHECK(
      tensor.dim() > 0 && tensor.size(0) % group.nranks() == 0,
      "[comm.functional.scatter] dim 0 of a tensor {} does not divide by {} "
      "ranks",
      tensor.sizes(),
      group.nranks());
  return tensor.size(0) / group.nranks();
}

at::Tensor averaged(const at::Tensor& tensor, ReduceOp op, const Group& group) {
  return op == ReduceOp::AVG ? tensor / group.nranks() : tensor;
}

// Gradient to those who had the extreme value, in equal parts.
at::Tensor extreme(
    const at::Tensor& tensor, ReduceOp op, const GroupPtr& group) {
  // The mask, divided by the number of ranks that share the extreme value.
  // Forward fills it and backward reads it; it costs a second all_reduce.
  auto chosen = std::make_shared<at::Tensor>();
  return torch_hooks::apply(
      tensor,
      [=](const at::Tensor& in) {
        at::Tensor out = fresh_copy(in);
        argosy::all_reduce(out, op, group);
        *chosen = in.eq(out).to(in.scalar_type());
        at::Tensor ties = fresh_copy(*chosen);
        argosy::all_reduce(ties, ReduceOp::SUM, group);
        *chosen /= ties;
        return out;
      },
      [=](const at::Tensor& gradient) {
        // The result is on all ranks, so the loss of each rank contributes.
        return functional::all_reduce(gradient, ReduceOp::SUM, group) * *chosen;
      });
}

} // namespace

// Each backward is the adjoint collective: broadcast and reduce, all_gather and
// reduce_scatter, gather and scatter are pairs. all_reduce (of sums and
// averages) and all_to_all are their own adjoints.
at::Tensor all_reduce(
    const at::Tensor& tensor, ReduceOp op, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  if (op == ReduceOp::MAX || op == ReduceOp::MIN) {
    // As a whole: what its forward keeps for its backward is of one run.
    return trace::recorded_call({tensor}, [=](const Tensors& in) {
      return Tensors{extreme(in[0], op, members)};
    })[0];
  }
  check_is_sum(op, "all_reduce");
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        at::Tensor out = fresh_copy(in);
        argosy::all_reduce(out, op, members);
        return out;
      },
      [=](const at::Tensor& gradient) {
        return functional::all_reduce(gradient, op, members);
      });
}

at::Tensor reduce(
    const at::Tensor& tensor, int dst, ReduceOp op, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  check_is_sum(op, "reduce");
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        at::Tensor out = fresh_copy(in);
        argosy::reduce(out, dst, op, members);
        // The others keep their own tensors, which are no part of the result.
        const bool receives = members->rank() == members->get_group_rank(dst);
        return receives ? out : out.zero_();
      },
      [=](const at::Tensor& gradient) {
        return averaged(
            functional::broadcast(gradient, dst, members), op, *members);
      });
}

at::Tensor broadcast(const at::Tensor& tensor, int src, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        at::Tensor out = fresh_copy(in);
        argosy::broadcast(out, src, members);
        return out;
      },
      [=](const at::Tensor& gradient) {
        return functional::reduce(gradient, src, ReduceOp::SUM, members);
      });
}

at::Tensor all_gather(
    const at::Tensor& tensor,
    const GroupPtr& group,
    std::int64_t dim,
    std::int64_t whole) {
  const GroupPtr members = group_or_default(group);
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        return comm::gather_shards(in, dim, whole, members)();
      },
      [=](const at::Tensor& gradient) {
        return functional::reduce_scatter(
            gradient, ReduceOp::SUM, members, dim);
      });
}

at::Tensor reduce_scatter(
    const at::Tensor& tensor,
    ReduceOp op,
    const GroupPtr& group,
    std::int64_t dim) {
  const GroupPtr members = group_or_default(group);
  check_is_sum(op, "reduce_scatter");
  // Shards of a dim that does not divide differ in size: only the size of the
  // whole tells backward how to gather them.
  auto whole = std::make_shared<std::int64_t>();
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        at::Tensor out = comm::reduce_shards(in, dim, op, members)();
        *whole = in.size(dim);
        return out;
      },
      [=](const at::Tensor& gradient) {
        return averaged(
            functional::all_gather(gradient, members, dim, *whole),
            op,
            *members);
      });
}

at::Tensor gather(const at::Tensor& tensor, int dst, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  const std::vector<std::int64_t> sizes = tensor.sizes().vec();
  ARGOSY_CHECK(
      !sizes.empty(), "[comm.functional.gather] a tensor without dims");
  const bool receives = members->rank() == members->get_group_rank(dst);
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        Tensors parts;
        argosy::gather(in, receives ? &parts : nullptr, dst, members);
        // No rows, yet a place in the graph: backward must reach this node on
        // all ranks, because the scatter is collective.
        return receives ? at::cat(parts) : in.narrow(0, 0, 0).clone();
      },
      [=](const at::Tensor& gradient) {
        std::vector<std::int64_t> whole = sizes;
        // Other ranks pass zeros only to have the shape that scatter() checks;
        // it reads the data of the root alone.
        whole[0] *= members->nranks();
        return functional::scatter(
            receives ? gradient : at::zeros(whole, gradient.options()),
            dst,
            members);
      });
}

at::Tensor scatter(const at::Tensor& tensor, int src, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  const std::int64_t rows = equal_rows(tensor, *members);
  const bool gives = members->rank() == members->get_group_rank(src);
  const std::vector<std::int64_t> sizes = tensor.sizes().vec();
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        at::Tensor out =
            at::empty_like(in.narrow(0, 0, rows), at::MemoryFormat::Contiguous);
        argosy::scatter(out, in.contiguous(), src, members);
        return out;
      },
      [=](const at::Tensor& gradient) {
        const at::Tensor whole = functional::gather(gradient, src, members);
        return gives ? whole : at::zeros(sizes, gradient.options());
      });
}

at::Tensor alltoall_single(
    const at::Tensor& tensor, const RowSplits& splits, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        std::vector<std::int64_t> sizes = in.sizes().vec();
        if (!splits.out.empty()) {
          sizes.at(0) = std::accumulate(
              splits.out.begin(), splits.out.end(), std::int64_t{0});
        }
        const at::Tensor out = at::empty(sizes, in.options());
        argosy::alltoall_single(out, in, splits, members);
        return out;
      },
      [=](const at::Tensor& gradient) {
        // With the splits exchanged: each part goes back where it came from.
        return functional::alltoall_single(
            gradient, {.out = splits.in, .in = splits.out}, members);
      });
}

Tensors alltoall(const Tensors& tensors, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  return recorded_apply(
      tensors,
      [=](const Tensors& ins) {
        Tensors outs;
        argosy::alltoall({.out = outs, .in = ins}, members);
        return outs;
      },
      [=](const Tensors& gradients) {
        return functional::alltoall(gradients, members);
      });
}

at::Tensor send(const at::Tensor& tensor, int dst, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  const at::Tensor like = tensor.detach();
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        argosy::send(in, dst, members);
        // A message has no result. The user adds this zero to the loss, so that
        // backward reaches the node and fetches the gradient from the receiver.
        return at::zeros({}, in.options());
      },
      [=](const at::Tensor& gradient) {
        at::Tensor received =
            at::empty_like(like, at::MemoryFormat::Contiguous);
        argosy::recv(received, dst, members);
        return received * gradient; // of the zero that stands for the message
      });
}

at::Tensor recv(const at::Tensor& like, int src, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  return recorded_apply(
      like,
      [=](const at::Tensor& in) {
        at::Tensor out = at::empty_like(in, at::MemoryFormat::Contiguous);
        argosy::recv(out, src, members);
        return out;
      },
      [=](const at::Tensor& gradient) {
        argosy::send(gradient.contiguous(), src, members);
        // The values of `like` do not matter; it is there to put a node into
        // the graph.
        return at::zeros_like(gradient);
      });
}

// The next four are for tensor parallelism, where all ranks of the group
// compute the same loss from the same activations. The gradient of a replicated
// result is then already the same on every rank: to sum it, as all_reduce() and
// all_gather() do in their backward, would count it once for each rank. So the
// backward of a sum is the identity and that of a concatenation takes the own
// shard; c_identity and c_split are their counterparts.
at::Tensor c_identity(const at::Tensor& tensor, const GroupPtr& group) {
  // Here and in c_split(): only their backward would tell otherwise.
  comm::check_has_memory(tensor, "functional.c_identity");
  const GroupPtr members = group_or_default(group);
  return recorded_apply(
      tensor,
      // Not `in` itself: apply() must not return one of its inputs.
      [](const at::Tensor& in) { return in.detach(); },
      [=](const at::Tensor& gradient) {
        return functional::mp_allreduce(gradient, members);
      });
}

at::Tensor mp_allreduce(const at::Tensor& tensor, const GroupPtr& group) {
  const GroupPtr members = group_or_default(group);
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        at::Tensor out = fresh_copy(in);
        argosy::all_reduce(out, ReduceOp::SUM, members);
        return out;
      },
      [=](const at::Tensor& gradient) {
        return functional::c_identity(gradient, members);
      });
}

at::Tensor c_concat(
    const at::Tensor& tensor,
    const GroupPtr& group,
    std::int64_t dim,
    std::int64_t whole) {
  const GroupPtr members = group_or_default(group);
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        return comm::gather_shards(in, dim, whole, members)();
      },
      [=](const at::Tensor& gradient) {
        return functional::c_split(gradient, members, dim);
      });
}

at::Tensor c_split(
    const at::Tensor& tensor, const GroupPtr& group, std::int64_t dim) {
  comm::check_has_memory(tensor, "functional.c_split");
  const GroupPtr members = group_or_default(group);
  auto whole = std::make_shared<std::int64_t>();
  return recorded_apply(
      tensor,
      [=](const at::Tensor& in) {
        at::Tensor out = fresh_copy(comm::own_shard(in, dim, *members));
        *whole = in.size(dim);
        return out;
      },
      [=](const at::Tensor& gradient) {
        return functional::c_concat(gradient, members, dim, *whole);
      });
}

} // namespace argosy::functional
