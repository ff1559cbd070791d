#include "argosy/world/adopt.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/job_key.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy {

namespace {

using State = Finding::State;
using world::Claim;
using world::Context;
using world::Source;

constexpr char kTag[] = "[world.adopt] ";

// A source, and how it reads the environment.
struct Reading {
  const Source* source = nullptr;
  Finding finding;
  Claim claim;                      // if complete
  std::vector<std::string> missing; // "A or B" each
};

// Findings are shown without the tag; the final error adds it once.
std::string without_tag(std::string_view message) {
  const bool tagged = message.starts_with(kTag);
  return std::string(message.substr(tagged ? sizeof(kTag) - 1 : 0));
}

// Splits "A|B".
std::vector<std::string> alternatives(const std::string& need) {
  return split(need, '|');
}

std::vector<std::string> missing_of(
    const Source& source, const Environment& env) {
  std::vector<std::string> missing;
  for (const std::string& need : source.needs) {
    const auto names = alternatives(need);
    const bool set = std::ranges::any_of(
        names, [&](const std::string& name) { return env.has(name); });
    if (!set) {
      missing.push_back(join(names, " or "));
    }
  }
  return missing;
}

std::string shown_of(const Source& source, const Environment& env) {
  std::vector<std::string> names = source.marks;
  for (const std::string& need : source.needs) {
    for (const std::string& name : alternatives(need)) {
      if (std::ranges::find(names, name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return world::shown(env, names);
}

// Why the source does not apply here, or "".
std::string silence_of(const Source& source, const Environment& env) {
  const bool marked = std::ranges::any_of(
      source.marks, [&](const std::string& name) { return env.has(name); });
  if (!marked) {
    return str(join(source.marks, ", "), " not set");
  }
  return source.disowned == nullptr ? "" : source.disowned(env);
}

// Records an invalid value instead of throwing: `argosy env` shows all sources,
// another level may win, and ARGOSY_ADOPT may choose another source.
Reading read_source(const Source& source, const Context& context) {
  Reading reading;
  reading.source = &source;
  reading.finding.source = std::string(source.name);
  reading.missing = missing_of(source, context.env);
  reading.finding.reason = silence_of(source, context.env);
  if (!reading.finding.reason.empty()) {
    return reading;
  }
  reading.finding.state = State::Partial;
  if (!reading.missing.empty()) {
    reading.finding.reason =
        str(shown_of(source, context.env),
            " without ",
            join(reading.missing, ", "));
    return reading;
  }
  try {
    reading.claim = source.read(context);
    reading.claim.info.source = reading.finding.source;
    reading.finding.state = State::Complete;
    reading.finding.reason = shown_of(source, context.env);
  } catch (const InvalidArgument& error) {
    reading.finding.reason = without_tag(error.what());
  }
  return reading;
}

std::vector<Reading> read_all(const Context& context) {
  std::vector<Reading> readings;
  for (const Source& source : world::sources()) {
    readings.push_back(read_source(source, context));
  }
  return readings;
}

// Job scripts export WORLD_SIZE for their own purposes. Without RANK it only
// checks what other sources say.
void settle_world_size(std::vector<Reading>& readings, const Environment& env) {
  const auto plain = std::ranges::find_if(
      readings, [](const Reading& r) { return r.finding.source == "env"; });
  if (plain->finding.state != State::Partial || env.has("RANK")) {
    return;
  }
  for (const Reading& other : readings) {
    if (other.finding.state != State::Complete) {
      continue;
    }
    const LaunchInfo& info = other.claim.info;
    const std::string size = std::to_string(info.size);
    if (env.get("WORLD_SIZE", "") == size) {
      plain->finding.state = State::Absent;
      plain->finding.reason = str("WORLD_SIZE alone agrees with ", info.source);
    } else {
      plain->finding.reason += str(" but ", info.source, " has size ", size);
    }
    return;
  }
}

std::string claim_text(const Reading& reading) {
  const LaunchInfo& info = reading.claim.info;
  return str_format(
      "{} says {} {} of {} ({})",
      info.source,
      to_string(info.role),
      info.rank,
      info.size,
      reading.finding.reason);
}

bool same_place(const LaunchInfo& a, const LaunchInfo& b) {
  return a.role == b.role && a.rank == b.rank && a.size == b.size;
}

void take(Adoption& adoption, Reading& reading) {
  adoption.info = reading.claim.info;
  adoption.notes = reading.claim.notes;
  reading.finding.state = State::Adopted;
}

void check_name(const std::string& name) {
  std::vector<std::string> names = {"single"};
  for (const Source& source : world::sources()) {
    names.emplace_back(source.name);
  }
  if (std::ranges::find(names, name) != names.end()) {
    return;
  }
  const auto meant = nearest(name, names);
  throw InvalidArgument(str_format(
      "{}ARGOSY_ADOPT={} is not a source; {}There are {}",
      kTag,
      name,
      meant ? str("did you mean ", *meant, "? ") : "",
      join(names, ", ")));
}

void adopt_forced(
    Adoption& adoption,
    std::vector<Reading>& readings,
    const std::string& name,
    const Context& context) {
  check_name(name);
  if (name == "single") {
    return;
  }
  for (Reading& reading : readings) {
    if (reading.finding.source != name) {
      continue;
    }
    ARGOSY_CHECK(
        reading.missing.empty(),
        "{}ARGOSY_ADOPT={} but these are not set: {}",
        kTag,
        name,
        join(reading.missing, ", "));
    // A forced source counts even if its marks seemed to belong to another.
    if (reading.finding.state != State::Complete) {
      reading.finding.state = State::Partial;
      reading.claim = reading.source->read(context);
      reading.claim.info.source = name;
    }
    take(adoption, reading);
  }
}

bool speaks(const Reading& reading) {
  return reading.finding.state == State::Complete ||
      reading.finding.state == State::Partial;
}

// A launcher inside a batch job sees the variables of both, for example
// torchrun's and Slurm's. The level nearest to the process wins (Level in
// source.h). Sources that are only partly set take part: to pass over them
// would turn a forgotten variable into a world of another size.
std::vector<Reading*> winning_level(std::vector<Reading>& readings) {
  std::vector<Reading*> winners;
  for (Reading& reading : readings) {
    if (!speaks(reading)) {
      continue;
    }
    const bool nearer = !winners.empty() &&
        reading.source->level < winners.front()->source->level;
    if (nearer) {
      winners.clear();
    }
    if (winners.empty() ||
        reading.source->level == winners.front()->source->level) {
      winners.push_back(&reading);
    }
  }
  return winners;
}

void mark_outer(
    std::vector<Reading>& readings, const std::vector<Reading*>& winners) {
  for (Reading& reading : readings) {
    if (speaks(reading) &&
        reading.source->level > winners.front()->source->level) {
      reading.finding.state = State::Outer;
      reading.finding.reason +=
          str(", but ", winners.front()->finding.source, " stands nearer");
    }
  }
}

void adopt_nearest(Adoption& adoption, std::vector<Reading>& readings) {
  const std::vector<Reading*> winners = winning_level(readings);
  if (winners.empty()) {
    return; // no source applies: a world of one
  }
  mark_outer(readings, winners);
  for (const Reading* reading : winners) {
    ARGOSY_CHECK(
        reading->finding.state == State::Complete,
        "{}{}: {}",
        kTag,
        reading->finding.source,
        reading->finding.reason);
  }
  // Sources of one level may describe the same launch in different variables.
  // That is fine as long as they agree.
  Reading& first = *winners.front();
  for (const Reading* other : winners) {
    ARGOSY_CHECK(
        same_place(first.claim.info, other->claim.info),
        "{}{}, {}; set ARGOSY_ADOPT to one of the two names",
        kTag,
        claim_text(first),
        claim_text(*other));
  }
  take(adoption, first);
}

} // namespace

std::string to_string(Finding::State state) {
  switch (state) {
    case State::Absent:
      return "absent";
    case State::Partial:
      return "partial";
    case State::Outer:
      return "outer";
    case State::Complete:
      return "complete";
    case State::Adopted:
      return "adopted";
  }
  return "unknown";
}

Adoption examine(const Environment& env, const AdoptOptions& options) {
  const Context context{env, options.job_key};
  Adoption adoption;
  std::vector<Reading> readings = read_all(context);
  settle_world_size(readings, env);
  try {
    if (const auto name = env.find("ARGOSY_ADOPT")) {
      adopt_forced(adoption, readings, *name, context);
    } else {
      adopt_nearest(adoption, readings);
    }
  } catch (const InvalidArgument& error) {
    adoption.error = error.what();
  }
  for (Reading& reading : readings) {
    adoption.findings.push_back(std::move(reading.finding));
  }
  return adoption;
}

Adoption adopt(const Environment& env, const AdoptOptions& options) {
  Adoption adoption = examine(env, options);
  if (!adoption.error.empty()) {
    throw InvalidArgument(adoption.error);
  }
  return adoption;
}

Adoption adopt_process() {
  const Environment env = Environment::of_process();
  return adopt(env, {.job_key = local_job_key(env)});
}

} // namespace argosy
