#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "argosy/common/error.h"
#include "argosy/observe/trace.h"

namespace argosy::observe {

namespace {

// Communication lanes are numbered after the lanes of threads.
constexpr int kCommunication = 1000;

// Escapes and quotes. Names come from the user and may not be valid UTF-8.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Microseconds, as the format requires, with nanosecond digits.
std::string micros(std::int64_t ns) {
  std::array<char, 32> text{};
  std::snprintf(
      text.data(),
      text.size(),
      "%lld.%03lld",
      static_cast<long long>(ns / 1000),
      static_cast<long long>(ns % 1000));
  return text.data();
}

std::int64_t first_ns(const std::vector<RankTrace>& ranks) {
  auto first = std::numeric_limits<std::int64_t>::max();
  for (const RankTrace& rank : ranks) {
    for (const auto& span : rank.spans) {
      first = std::min(first, span.begin_ns);
    }
    for (const auto& operation : rank.operations) {
      first = std::min(first, operation.begin_ns);
    }
  }
  return first == std::numeric_limits<std::int64_t>::max() ? 0 : first;
}

// "compute", "compute 2", ...
std::string lane_name(const char* what, int number) {
  return number == 0 ? what : str(what, " ", number + 1);
}

// Writes events one after the other. Times are relative to `origin`.
class Writer {
 public:
  explicit Writer(std::int64_t origin) : origin_(origin) {}

  void rank(const RankTrace& trace) {
    const std::string host = trace.host.empty() ? "" : " (" + trace.host + ")";
    name("process", trace.rank, 0, str("rank ", trace.rank, host));
    lanes(trace);
    for (const TraceSpan& span : trace.spans) {
      event(
          str(R"("ph": "X", "name": )",
              quoted(span.name),
              R"(, "cat": ")",
              span.activity == Activity::Wait ? "wait" : "compute",
              R"(", )",
              place(trace.rank, span.thread),
              times(span.begin_ns, span.end_ns)));
    }
    for (std::size_t i = 0; i < trace.operations.size(); ++i) {
      operation(trace, trace.operations[i], operation_lanes_[i]);
    }
    all_lanes_.push_back(operation_lanes_);
  }

  void arrow(
      const std::vector<RankTrace>& ranks, const Arrow& arrow, std::size_t id) {
    const auto& from = ranks[arrow.from_rank].operations[arrow.from_operation];
    const auto& to = ranks[arrow.to_rank].operations[arrow.to_operation];
    // Viewers match the two ends by category, name and id.
    const std::string joint =
        str(R"("name": )", quoted(from.op), R"(, "cat": "arrow", "id": )", id);
    event(
        str(R"("ph": "s", )",
            joint,
            ", ",
            communication_place(ranks, arrow.from_rank, arrow.from_operation),
            R"(, "ts": )",
            micros(from.begin_ns - origin_)));
    // Within the other event: viewers attach the arrow to the enclosing event.
    const std::int64_t last = std::max(to.begin_ns, to.end_ns - 1);
    event(
        str(R"("ph": "f", "bp": "e", )",
            joint,
            ", ",
            communication_place(ranks, arrow.to_rank, arrow.to_operation),
            R"(, "ts": )",
            micros(last - origin_)));
  }

  std::string take() { return std::move(text_); }

 private:
  void event(const std::string& fields) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += "{" + fields + "}";
  }

  static std::string place(int rank, int lane) {
    return str(R"("pid": )", rank, R"(, "tid": )", lane);
  }

  std::string times(std::int64_t begin_ns, std::int64_t end_ns) const {
    return R"(, "ts": )" + micros(begin_ns - origin_) + R"(, "dur": )" +
        micros(end_ns - begin_ns);
  }

  // Names a process or a thread and sets its sort order.
  void name(
      const std::string& what, int rank, int lane, const std::string& name) {
    const std::string place_text = place(rank, lane);
    event(
        str(R"("ph": "M", "name": ")",
            what,
            R"(_name", )",
            place_text,
            R"(, "args": {"name": )",
            quoted(name),
            "}"));
    event(
        str(R"("ph": "M", "name": ")",
            what,
            R"(_sort_index", )",
            place_text,
            R"(, "args": {"sort_index": )",
            what == "process" ? rank : lane,
            "}"));
  }

  void lanes(const RankTrace& trace) {
    int threads = 1;
    for (const TraceSpan& span : trace.spans) {
      threads = std::max(threads, span.thread + 1);
    }
    for (int thread = 0; thread < threads; ++thread) {
      name("thread", trace.rank, thread, lane_name("compute", thread));
    }
    operation_lanes_ = lanes_of(trace.operations);
    const auto most = std::ranges::max_element(operation_lanes_);
    for (int lane = 0; most != operation_lanes_.end() && lane <= *most;
         ++lane) {
      name(
          "thread",
          trace.rank,
          kCommunication + lane,
          lane_name("communication", lane));
    }
  }

  void operation(const RankTrace& trace, const TraceOperation& each, int lane) {
    event(
        str(R"("ph": "X", "name": )",
            quoted(each.op),
            R"(, "cat": "communication", )",
            place(trace.rank, kCommunication + lane),
            times(each.begin_ns, each.end_ns),
            // Named as in PyTorch's traces, whose tools look for these names.
            R"(, "args": {"Collective name": )",
            quoted(each.op),
            R"(, "Process Group Name": ")",
            each.group,
            R"(", "Seq": )",
            each.sequence,
            R"(, "bytes": )",
            each.bytes,
            R"(, "rank": )",
            trace.rank,
            each.label.empty() ? "" : R"(, "for": )" + quoted(each.label),
            "}"));
  }

  std::string communication_place(
      const std::vector<RankTrace>& ranks,
      std::size_t rank,
      std::size_t operation) const {
    return place(
        ranks[rank].rank, kCommunication + all_lanes_[rank][operation]);
  }

  const std::int64_t origin_;
  std::string text_;
  std::vector<int> operation_lanes_;
  std::vector<std::vector<int>> all_lanes_; // by rank
};

std::string header(const std::vector<RankTrace>& ranks, std::int64_t origin) {
  std::uint64_t dropped = 0;
  for (const RankTrace& rank : ranks) {
    dropped += rank.dropped;
  }
  // HTA searches for "rank" with a space after the colon.
  return str(
      "{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n",
      R"("distributedInfo": {"backend": "argosy", "rank": )",
      ranks.empty() ? 0 : ranks.front().rank,
      R"(, "world_size": )",
      ranks.size(),
      "},\n\"baseTimeNanoseconds\": ",
      origin,
      ",\n\"droppedEvents\": ",
      dropped,
      ",\n\"traceEvents\": [\n");
}

} // namespace

// Writes text directly: a JSON tree of a large trace would take many times the
// memory of its text.
std::string trace_json(const std::vector<RankTrace>& ranks) {
  // Times relative to the first event keep their nanoseconds in viewers that
  // read numbers as doubles.
  const std::int64_t origin = first_ns(ranks);
  Writer writer(origin);
  for (const RankTrace& rank : ranks) {
    writer.rank(rank);
  }
  std::size_t id = 0;
  // After all ranks: an arrow needs the lanes of both of its ends.
  for (const Arrow& arrow : arrows_between(ranks)) {
    writer.arrow(ranks, arrow, ++id);
  }
  return header(ranks, origin) + writer.take() + "\n]\n}\n";
}

} // namespace argosy::observe
