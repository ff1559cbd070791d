#include "argosy/observe/trace_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <string>
#include <vector>

#include "argosy/comm/codec.h"
#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/common/file.h"

namespace argosy::comm {

template <>
struct Codec<observe::TraceSpan> {
  static void encode(const observe::TraceSpan& span, std::string& bytes) {
    encode_to(
        bytes,
        span.name,
        span.activity,
        span.thread,
        span.begin_ns,
        span.end_ns);
  }
  static observe::TraceSpan decode(ByteReader& reader) {
    observe::TraceSpan span;
    span.name = reader.read<std::string>();
    span.activity = reader.read<observe::Activity>();
    span.thread = reader.read<int>();
    span.begin_ns = reader.read<std::int64_t>();
    span.end_ns = reader.read<std::int64_t>();
    return span;
  }
};

template <>
struct Codec<observe::TraceOperation> {
  static void encode(const observe::TraceOperation& each, std::string& bytes) {
    encode_to(
        bytes,
        each.op,
        each.group,
        each.from,
        each.to,
        each.sequence,
        each.bytes,
        each.begin_ns,
        each.end_ns,
        each.label);
  }
  static observe::TraceOperation decode(ByteReader& reader) {
    observe::TraceOperation each;
    each.op = reader.read<std::string>();
    each.group = reader.read<int>();
    each.from = reader.read<int>();
    each.to = reader.read<int>();
    each.sequence = reader.read<std::uint64_t>();
    each.bytes = reader.read<std::int64_t>();
    each.begin_ns = reader.read<std::int64_t>();
    each.end_ns = reader.read<std::int64_t>();
    each.label = reader.read<std::string>();
    return each;
  }
};

template <>
struct Codec<observe::RankTrace> {
  static void encode(const observe::RankTrace& trace, std::string& bytes) {
    encode_to(
        bytes,
        trace.rank,
        trace.host,
        trace.spans,
        trace.operations,
        trace.dropped);
  }
  static observe::RankTrace decode(ByteReader& reader) {
    observe::RankTrace trace;
    trace.rank = reader.read<int>();
    trace.host = reader.read<std::string>();
    trace.spans = reader.read<std::vector<observe::TraceSpan>>();
    trace.operations = reader.read<std::vector<observe::TraceOperation>>();
    trace.dropped = reader.read<std::uint64_t>();
    return trace;
  }
};

} // namespace argosy::comm

namespace argosy::observe {

namespace {

at::Tensor view_of(std::string& bytes) {
  return at::from_blob(
      bytes.data(), {static_cast<std::int64_t>(bytes.size())}, at::kByte);
}

at::Tensor view_of(std::vector<std::int64_t>& values) {
  return at::from_blob(
      values.data(), {static_cast<std::int64_t>(values.size())}, at::kLong);
}

// Returns everyone's bytes on rank 0, in rank order; nothing elsewhere, because
// traces are large.
std::vector<std::string> gather_bytes(std::string own, const GroupPtr& group) {
  const auto n = static_cast<std::size_t>(group->nranks());
  std::vector<std::int64_t> own_size = {static_cast<std::int64_t>(own.size())};
  std::vector<std::int64_t> sizes(n);
  // Rank 0 must allocate before it receives.
  all_gather(view_of(sizes), view_of(own_size), group);
  const bool collects = group->rank() == 0;
  std::string nothing;
  std::vector<std::string> all(n);
  Tensors ins;
  Tensors outs;
  for (std::size_t rank = 0; rank < n; ++rank) {
    all[rank].resize(collects ? static_cast<std::size_t>(sizes[rank]) : 0);
    outs.push_back(view_of(all[rank]));
    // An all-to-all in which only rank 0 gets bytes: a gather of unequal sizes.
    ins.push_back(view_of(rank == 0 ? own : nothing));
  }
  alltoall({.out = outs, .in = ins}, group);
  return all;
}

} // namespace

void write_trace(
    const std::filesystem::path& path,
    const RankTrace& own,
    const GroupPtr& group) {
  const GroupPtr members = group ? group : get_group(0);
  const auto encoded = gather_bytes(comm::encode(own), members);
  std::exception_ptr failure;
  if (members->rank() == 0) {
    try {
      std::vector<RankTrace> ranks;
      for (const std::string& bytes : encoded) {
        ranks.push_back(comm::decode<RankTrace>(bytes));
      }
      std::error_code ignored; // write_file() reports the error
      std::filesystem::create_directories(path.parent_path(), ignored);
      write_file(path, trace_json(ranks));
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
  }
  // Rank 0 comes here even if it failed, since the others wait. After it, every
  // rank finds the complete file.
  barrier(members);
  if (failure) {
    std::rethrow_exception(failure);
  }
}

} // namespace argosy::observe
