// Loading: every rank says what it needs, each piece is read by one rank of
// each host, verified, and given to those that need some of it.

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/load_run.h"
#include "argosy/comm/codec.h"
#include "argosy/common/error.h"
#include "argosy/common/pattern.h"
#include "argosy/common/rank_label.h"
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
    const std::string& name, const std::vector<Pattern>& patterns) {
  return std::ranges::any_of(
      patterns, [&](const Pattern& pattern) { return pattern.matches(name); });
}

std::vector<Pattern> compiled(const std::vector<std::string>& patterns) {
  std::vector<Pattern> all;
  for (const std::string& pattern : patterns) {
    all.emplace_back(pattern, "[checkpoint.load]");
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

// The checkpoint that the first rank finds, on all. Collective.
Chosen choose_on(
    const Ranks& ranks,
    const std::string& url,
    const LoadOptions& options,
    Deadline deadline) {
  const std::string place = ranks.from_first("load", [&] {
    const Chosen chosen = choose(url, options.step, deadline);
    std::string bytes;
    comm::encode_to(bytes, chosen.folder.path(), chosen.name);
    return bytes;
  });
  comm::ByteReader reader(place);
  const auto path = reader.read<std::string>();
  return {Folder({fs::open(url).fs, path}), reader.read<std::string>()};
}

// As the first rank sees it. Collective.
LoadWay way_on(
    const Ranks& ranks,
    const Chosen& chosen,
    const Manifest& manifest,
    const LoadOptions& options,
    Deadline deadline) {
  return parse_load_way(ranks.from_first("load", [&] {
    return to_text(choose_way(
        options.verify_first,
        look_at(chosen.folder, chosen.name, manifest, ranks.size(), deadline)));
  }));
}

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

// Collective.
void read_all(const Ranks& ranks, LoadRun& run, Order order) {
  try {
    ranks.agree("load", [&] { run.read(); });
  } catch (const std::exception& error) {
    if (order == Order::ReadWithUndo) {
      run.undo();
      throw;
    }
    throw CheckpointError(str_format(
        "{}. The state has old and new values now: load a checkpoint before "
        "you use it",
        without_rank_label(error.what())));
  }
}

} // namespace

LoadReport load(
    const std::string& url, State& state, const LoadOptions& options) {
  const at::NoGradGuard no_grad;
  const Ranks ranks = loading_ranks(options);
  const Deadline deadline = Deadline::after(options.timeout);
  const Chosen chosen = choose_on(ranks, url, options, deadline);
  const Folder& folder = chosen.folder;
  const std::string& name = chosen.name;
  const std::string text = ranks.from_first(
      "load", [&] { return to_text(folder.read_manifest(name, deadline)); });
  const Manifest manifest =
      parse_manifest(text, folder.url(name) + '/' + kManifestName);
  const LoadWay way = way_on(ranks, chosen, manifest, options, deadline);
  std::optional<Request> request;
  std::optional<PieceReader> reader;
  std::optional<LoadRun> run;
  const auto all = ranks.all_gather("load", [&] {
    request.emplace(
        manifest, ranks.rank(), ranks.size(), selection_of(options));
    reader.emplace(manifest, folder, name, options.key, deadline);
    state.request(*request);
    run.emplace(manifest, ranks, *request, *reader, way.order);
    return encode_needs(run->wants(), *request);
  });
  const Needs needs = decode_needs(all);
  if (options.strict) {
    check_complete(needs, folder.url(name));
  }
  run->plan(needs.wants, way.ahead);
  ranks.agree("load", [&] { run->verify(); });
  read_all(ranks, *run, way.order);
  ranks.agree("load", [&] {
    run->take();
    for (const auto& action : request->actions()) {
      action();
    }
  });
  return {
      .step = manifest.step,
      .url = folder.url(name),
      .missing = {needs.missing.begin(), needs.missing.end()},
      .left_over = {needs.left_over.begin(), needs.left_over.end()},
      .bytes_read = reader->bytes_read(),
      .values = manifest.values};
}

} // namespace argosy::checkpoint
