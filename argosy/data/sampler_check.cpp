#include "argosy/data/sampler_check.h"

#include <algorithm>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/notes.h"

namespace argosy::data {

namespace {

constexpr const char* kBatches = "batches";

// What all ranks must have alike, as "name value" in lines.
std::string settings_text(
    std::int64_t dataset_size, const SamplerOptions& options) {
  std::string text = str_format(
      "dataset_size {}\nbatch_size {}\nnum_replicas {}\nshuffle {}\n"
      "drop_last {}\npad {}",
      dataset_size,
      options.batch_size,
      options.replicas(),
      options.shuffle,
      options.drop_last,
      options.pad);
  return options.shuffle ? str(text, "\nseed ", options.seed) : text;
}

// A rank and its settings, as it leaves them for the others.
struct Posted {
  std::string rank;
  std::vector<std::string> settings; // each "name value"

  explicit Posted(const std::string& text) : settings(split(text, '\n')) {
    rank = settings.front();
    settings.erase(settings.begin());
  }
};

// Empty if both are the same.
std::string difference(const Posted& theirs, const Posted& ours) {
  std::vector<std::string> parts;
  for (std::size_t i = 0;
       i < std::max(theirs.settings.size(), ours.settings.size());
       ++i) {
    const auto at = [&](const Posted& posted) {
      return i < posted.settings.size() ? posted.settings[i] : "no seed";
    };
    if (at(theirs) != at(ours)) {
      parts.push_back(str_format(
          "rank {} has {}, rank {} has {}",
          theirs.rank,
          at(theirs),
          ours.rank,
          at(ours)));
    }
  }
  return join(parts, "; ");
}

} // namespace

std::string uneven_batches(
    std::int64_t dataset_size, const SamplerOptions& options) {
  // The first ranks get one sample more, so the last has the fewest.
  const auto batches_of = [&](int rank) {
    SamplerOptions theirs = options;
    theirs.rank = rank;
    return num_batches(dataset_size, theirs);
  };
  const int last = static_cast<int>(options.replicas()) - 1;
  const std::int64_t most = batches_of(0);
  const std::int64_t fewest = batches_of(last);
  return most == fewest ? ""
                        : str_format(
                              "rank {} of the sampler has {} batches in an "
                              "epoch and rank 0 has {}",
                              last,
                              fewest,
                              most);
}

std::string uneven_batches_of_world() {
  const auto notes = current_notes();
  return notes ? notes->kept(kBatches) : "";
}

SamplerCheck::SamplerCheck(const MadeSampler& made) {
  const SamplerOptions& options = made.options;
  const auto notes = current_notes();
  // A sampler for one rank is that rank's own affair.
  if (!notes || options.replicas() == 1) {
    return;
  }
  notes->keep(kBatches, uneven_batches(made.dataset_size, options));
  notes_ = notes;
  // By the line, not by their number alone: a rank may make one more than the
  // others, such as for an evaluation of its own.
  const std::string name = str("sampler/", made.site);
  key_ = str(name, "/", notes->count(name));
  own_ = str(notes->rank(), "\n", settings_text(made.dataset_size, options));
  is_of_world_ = made.is_of_world || options.replicas() == notes->size();
  looks_left_ = 2;
  check();
}

// Samplers for a part of the job are not compared with each other, but they
// differ from one for all ranks.
void SamplerCheck::look(Notes& notes) const {
  const auto first =
      is_of_world_ ? notes.claim(key_, own_) : notes.find(key_).value_or(own_);
  const std::string how = difference(Posted(first), Posted(own_));
  if (!how.empty()) {
    notes.claim(str(key_, "/differs"), how);
  }
}

void SamplerCheck::check() {
  if (looks_left_ == 0) {
    return;
  }
  --looks_left_;
  const auto notes = notes_.lock();
  if (!notes) {
    return;
  }
  look(*notes);
  const auto how = notes->find(str(key_, "/differs"));
  ARGOSY_CHECK(
      !how,
      "[data.sampler] sampler check: {}; expected the same on all ranks, which "
      "otherwise train on wrong parts of the data and do not take equally many "
      "steps. A sampler for one rank alone has num_replicas = 1",
      how.value_or(""));
}

} // namespace argosy::data
