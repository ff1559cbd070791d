// Loading: every rank says what it needs, each piece is read by one rank of
// each host, verified, and given to those that need some of it.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "argosy/checkpoint/boxes.h"
#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/exchange.h"
#include "argosy/checkpoint/piece_reader.h"
#include "argosy/checkpoint/read_plan.h"
#include "argosy/comm/codec.h"
#include "argosy/common/error.h"
#include "argosy/world/world.h"

namespace argosy::comm {

template <>
struct Codec<checkpoint::Want> {
  static void encode(const checkpoint::Want& want, std::string& bytes) {
    encode_to(bytes, want.tensor, want.box.offset, want.box.size);
  }
  static checkpoint::Want decode(ByteReader& reader) {
    checkpoint::Want want;
    want.tensor = reader.read<std::uint32_t>();
    want.box.offset = reader.read<dtensor::Shape>();
    want.box.size = reader.read<dtensor::Shape>();
    return want;
  }
};

} // namespace argosy::comm

namespace argosy::checkpoint {

namespace {

Ranks loading_ranks(const LoadOptions& options) {
  if (options.group != nullptr) {
    return Ranks(options.group);
  }
  const auto world = current_world();
  return world == nullptr || world->size() == 1 ? Ranks() : Ranks(get_group(0));
}

bool matches_any(
    const std::string& name, const std::vector<std::regex>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::regex& pattern) {
    return std::regex_match(name, pattern);
  });
}

std::vector<std::regex> compiled(const std::vector<std::string>& patterns) {
  std::vector<std::regex> all;
  for (const std::string& pattern : patterns) {
    try {
      all.emplace_back(pattern);
    } catch (const std::regex_error& error) {
      throw InvalidArgument(str_format(
          "[checkpoint.load] \"{}\" is not a regular expression: {}",
          pattern,
          error.what()));
    }
  }
  return all;
}

Request::Selection selection_of(const LoadOptions& options) {
  Request::Selection selection{
      .wanted = nullptr, .rename = options.rename, .cast = options.cast};
  if (!options.include.empty() || !options.exclude.empty()) {
    selection.wanted =
        [include = compiled(options.include),
         exclude = compiled(options.exclude)](const std::string& name) {
          return (include.empty() || matches_any(name, include)) &&
              !matches_any(name, exclude);
        };
  }
  return selection;
}

// A box that this rank needs, and where its values go.
struct Target {
  at::Tensor values; // of the state
  at::Tensor
      buffer; // row-major; the same memory, or copied to `values` at last
};

// What all ranks need.
struct Needs {
  std::vector<std::vector<Want>> wants;
  std::set<std::string> missing;   // on any rank
  std::set<std::string> left_over; // on all ranks
};

std::string encode_needs(
    const std::vector<Want>& wants, const Request& request) {
  std::string bytes;
  comm::encode_to(bytes, wants, request.missing(), request.left_over());
  return bytes;
}

Needs decode_needs(const std::vector<std::string>& all) {
  Needs needs;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    comm::ByteReader reader(all[rank]);
    needs.wants.push_back(reader.read<std::vector<Want>>());
    for (const auto& name : reader.read<std::vector<std::string>>()) {
      needs.missing.insert(name);
    }
    const auto names = reader.read<std::vector<std::string>>();
    std::set<std::string> left(names.begin(), names.end());
    if (rank > 0) {
      std::erase_if(left, [&](const std::string& name) {
        return needs.left_over.count(name) == 0;
      });
    }
    needs.left_over = std::move(left);
  }
  return needs;
}

std::string list_text(const std::set<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t number = 0;
  for (const std::string& name : names) {
    if (number++ == kMost) {
      text += str(", and ", names.size() - kMost, " more");
      break;
    }
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

void check_complete(const Needs& needs, const std::string& url) {
  if (needs.missing.empty() && needs.left_over.empty()) {
    return;
  }
  throw CheckpointError(str_format(
      "[checkpoint.load] {}{}{}{}{}; LoadOptions::strict = false loads the "
      "rest",
      url,
      needs.missing.empty() ? "" : " lacks ",
      list_text(needs.missing),
      needs.left_over.empty()     ? ""
          : needs.missing.empty() ? " has what the state does not: "
                                  : ", and has what the state does not: ",
      list_text(needs.left_over)));
}

class LoadRun {
 public:
  LoadRun(
      const Manifest& manifest,
      const Ranks& ranks,
      const Request& request,
      PieceReader& reader)
      : manifest_(manifest), ranks_(ranks), reader_(reader) {
    for (const Request::Slot& slot : request.slots()) {
      for (const LocalPiece& piece : slot.pieces) {
        add(slot, piece);
      }
    }
  }

  const std::vector<Want>& wants() const { return wants_; }

  // Collective. Throws on this rank alone; the others get values without
  // meaning, and learn of it when ranks agree.
  void read(const std::vector<std::vector<Want>>& wants) {
    wants_of_all_ = &wants;
    const ReadPlan plan = plan_reads(manifest_, wants, ranks_.hosts());
    for (const auto& wave : plan.waves) {
      read_wave(wave);
    }
    if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
  }

  // Brings the values into the state.
  void take() {
    const at::NoGradGuard no_grad;
    for (const Target& target : targets_) {
      if (!target.values.is_same(target.buffer)) {
        target.values.copy_(target.buffer);
      }
    }
  }

 private:
  void add(const Request::Slot& slot, const LocalPiece& piece) {
    const TensorRecord& record = manifest_.tensors[slot.tensor];
    const auto type = scalar_type_of(record.info.dtype, record.info.name);
    const bool direct = !slot.in_place && piece.values.is_contiguous() &&
        piece.values.scalar_type() == type;
    wants_.push_back({static_cast<std::uint32_t>(slot.tensor), piece.box});
    targets_.push_back(
        {piece.values,
         direct ? piece.values : at::empty(piece.box.size, type)});
  }

  std::byte* memory_of(std::uint32_t want) {
    return static_cast<std::byte*>(targets_[want].buffer.data_ptr());
  }

  const PieceRecord& piece_of(const PlannedRead& read) const {
    return manifest_.tensors[read.tensor].pieces[read.piece];
  }
  std::int64_t width_of(const PlannedRead& read) const {
    return static_cast<std::int64_t>(
        element_bytes(manifest_.tensors[read.tensor].info.dtype));
  }

  // Calls f(begin, end), elements of the piece, for each chunk of a read.
  template <typename F>
  void for_each_chunk(const PlannedRead& read, const F& f) const {
    const std::int64_t step =
        static_cast<std::int64_t>(kChunkBytes) / width_of(read);
    for (std::int64_t begin = read.begin; begin < read.end; begin += step) {
      f(begin, std::min(begin + step, read.end));
    }
  }

  void read_wave(const std::vector<PlannedRead>& wave) {
    const int own = ranks_.rank();
    std::vector<std::int64_t> sent(ranks_.size());
    std::vector<std::int64_t> received(ranks_.size());
    bool exchanges = false;
    for (const PlannedRead& read : wave) {
      for (const auto& taker : read.takers) {
        if (taker.rank == read.reader) {
          continue;
        }
        exchanges = true;
        if (read.reader == own || taker.rank == own) {
          const std::int64_t bytes = width_of(read) *
              count_common(piece_of(read).box,
                           read.begin,
                           read.end,
                           (*wants_of_all_)[taker.rank][taker.want].box);
          (read.reader == own ? sent[taker.rank] : received[read.reader]) +=
              bytes;
        }
      }
    }
    const at::Tensor out = buffer_for(received);
    const at::Tensor in = buffer_for(sent);
    std::vector<std::byte*> next = begins_of(in, sent);
    for (const PlannedRead& read : wave) {
      if (read.reader == own) {
        read_piece(read, next);
      }
    }
    if (exchanges) {
      alltoall_single(out, in, {.out = received, .in = sent}, ranks_.group());
      unpack(wave, begins_of(out, received));
    }
  }

  static at::Tensor buffer_for(const std::vector<std::int64_t>& parts) {
    std::int64_t sum = 0;
    for (const std::int64_t part : parts) {
      sum += part;
    }
    return at::empty({sum}, at::kByte);
  }

  static std::vector<std::byte*> begins_of(
      const at::Tensor& buffer, const std::vector<std::int64_t>& parts) {
    std::vector<std::byte*> begins;
    auto* next = static_cast<std::byte*>(buffer.data_ptr());
    for (const std::int64_t part : parts) {
      begins.push_back(next);
      next += part;
    }
    return begins;
  }

  // Reads a range of a piece, and copies from it for each taker: to this rank's
  // buffers, or to `next`, the places of the message to each rank.
  void read_piece(const PlannedRead& read, std::vector<std::byte*>& next) {
    if (error_ != nullptr) {
      return;
    }
    try {
      for_each_chunk(read, [&](std::int64_t begin, std::int64_t end) {
        const std::byte* const chunk = reader_.chunk(
            manifest_.tensors[read.tensor], read.piece, begin, end);
        for (const auto& taker : read.takers) {
          give(read, begin, end, chunk, taker, next);
        }
      });
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  void give(
      const PlannedRead& read,
      std::int64_t begin,
      std::int64_t end,
      const std::byte* chunk,
      const PlannedRead::Taker& taker,
      std::vector<std::byte*>& next) {
    const std::int64_t width = width_of(read);
    const bool own = taker.rank == ranks_.rank();
    std::byte* const memory = own ? memory_of(taker.want) : nullptr;
    std::byte*& message = next[taker.rank];
    for_each_run(
        piece_of(read).box,
        begin,
        end,
        (*wants_of_all_)[taker.rank][taker.want].box,
        [&](const Run& run) {
          const auto bytes = static_cast<std::size_t>(run.count * width);
          const std::byte* const from = chunk + (run.from - begin) * width;
          if (own) {
            std::memcpy(memory + run.to * width, from, bytes);
          } else {
            std::memcpy(message, from, bytes);
            message += bytes;
          }
        });
  }

  // The counterpart of give(), in the same order.
  void unpack(
      const std::vector<PlannedRead>& wave, std::vector<std::byte*> next) {
    const int own = ranks_.rank();
    for (const PlannedRead& read : wave) {
      if (read.reader == own) {
        continue;
      }
      for_each_chunk(read, [&](std::int64_t begin, std::int64_t end) {
        for (const auto& taker : read.takers) {
          if (taker.rank == own) {
            unpack_chunk(read, begin, end, taker.want, next[read.reader]);
          }
        }
      });
    }
  }

  void unpack_chunk(
      const PlannedRead& read,
      std::int64_t begin,
      std::int64_t end,
      std::uint32_t want,
      std::byte*& message) {
    const std::int64_t width = width_of(read);
    std::byte* const memory = memory_of(want);
    for_each_run(
        piece_of(read).box, begin, end, wants_[want].box, [&](const Run& run) {
          const auto bytes = static_cast<std::size_t>(run.count * width);
          std::memcpy(memory + run.to * width, message, bytes);
          message += bytes;
        });
  }

  const Manifest& manifest_;
  const Ranks& ranks_;
  PieceReader& reader_;
  std::vector<Want> wants_;
  std::vector<Target> targets_; // by want
  const std::vector<std::vector<Want>>* wants_of_all_ = nullptr;
  std::exception_ptr error_;
};

} // namespace

LoadReport load(
    const std::string& url, State& state, const LoadOptions& options) {
  const at::NoGradGuard no_grad;
  const Ranks ranks = loading_ranks(options);
  const Deadline deadline = Deadline::after(options.timeout);
  const std::string name = ranks.from_first(
      "load", [&] { return choose(url, options.step, deadline).name; });
  const Chosen chosen = choose(url, step_of(name), deadline);
  const std::string text = ranks.from_first("load", [&] {
    return to_text(chosen.folder.read_manifest(name, deadline));
  });
  const Manifest manifest =
      parse_manifest(text, chosen.folder.url(name) + '/' + kManifestName);
  Request request(manifest, ranks.rank(), ranks.size(), selection_of(options));
  PieceReader reader(manifest, chosen.folder, name, options.key, deadline);
  std::optional<LoadRun> run;
  const auto all = ranks.all_gather("load", [&] {
    state.request(request);
    run.emplace(manifest, ranks, request, reader);
    return encode_needs(run->wants(), request);
  });
  const Needs needs = decode_needs(all);
  if (options.strict) {
    check_complete(needs, chosen.folder.url(name));
  }
  ranks.agree("load", [&] { run->read(needs.wants); });
  ranks.agree("load", [&] {
    run->take();
    for (const auto& action : request.actions()) {
      action();
    }
  });
  return {
      .step = manifest.step,
      .url = chosen.folder.url(name),
      .missing = {needs.missing.begin(), needs.missing.end()},
      .left_over = {needs.left_over.begin(), needs.left_over.end()},
      .bytes_read = reader.bytes_read(),
      .values = manifest.values};
}

} // namespace argosy::checkpoint
