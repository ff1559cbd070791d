#include "argosy/sharding/unit_plan.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <optional>
#include <ostream>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::sharding {

namespace {

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts{""};
  for (const char c : name) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

std::string first_parts(const std::vector<std::string>& parts, std::size_t n) {
  return join({parts.begin(), parts.begin() + static_cast<long>(n)}, ".");
}

// "blocks.3" for blocks.3.linear.weight, "head" for head.weight, "" for weight.
std::string usual_module(const std::string& name) {
  const auto parts = parts_of(name);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (is_number(parts[i])) {
      return first_parts(parts, i + 1);
    }
  }
  return parts.size() > 1 ? parts.front() : "";
}

// The number of components of a name that the boundary covers; 0 if the name is
// not inside of it.
std::size_t covered(
    const std::vector<std::string>& name,
    const std::vector<std::string>& boundary) {
  if (boundary.size() >= name.size()) {
    return 0; // the last component is the parameter's own name
  }
  for (std::size_t i = 0; i < boundary.size(); ++i) {
    if (boundary[i] != "*" && boundary[i] != name[i]) {
      return 0;
    }
  }
  return boundary.size();
}

class Modules {
 public:
  explicit Modules(const std::vector<std::string>& boundaries) {
    for (const std::string& each : boundaries) {
      boundaries_.push_back({each, parts_of(each), false});
    }
  }

  std::string of(const std::string& name) {
    const auto parts = parts_of(name);
    std::size_t most = 0;
    for (Boundary& boundary : boundaries_) {
      const std::size_t n = covered(parts, boundary.parts);
      boundary.used = boundary.used || n > 0;
      most = std::max(most, n);
    }
    if (most > 0) {
      return first_parts(parts, most);
    }
    return boundaries_.empty() ? usual_module(name)
                               : (parts.size() > 1 ? parts.front() : "");
  }

  void check_all_used() const {
    for (const Boundary& boundary : boundaries_) {
      ARGOSY_CHECK(
          boundary.used,
          "[sharding] there is no parameter in a module \"{}\"",
          boundary.text);
    }
  }

 private:
  struct Boundary {
    std::string text;
    std::vector<std::string> parts;
    bool used = false;
  };
  std::vector<Boundary> boundaries_;
};

// Whether a unit is too small for a call of its own. All ranks must decide
// alike, so distributed parameters, whose sizes differ, never count as small.
bool is_small(
    const std::vector<ParameterInfo>& parameters,
    const UnitMembers& members,
    std::size_t least_bytes) {
  std::size_t bytes = 0;
  for (const std::size_t i : members.parameters) {
    if (parameters[i].is_distributed) {
      return false;
    }
    bytes += parameters[i].bytes();
  }
  return bytes < least_bytes;
}

void append(UnitMembers& to, const UnitMembers& more) {
  to.parameters.insert(
      to.parameters.end(), more.parameters.begin(), more.parameters.end());
}

// Merges units that are too small with the unit before them; the first one with
// the second.
std::vector<UnitMembers> without_small(
    std::vector<UnitMembers> units,
    const std::vector<ParameterInfo>& parameters,
    std::size_t least_bytes) {
  std::vector<UnitMembers> result;
  for (UnitMembers& unit : units) {
    const bool joins = !result.empty() &&
        (is_small(parameters, unit, least_bytes) ||
         is_small(parameters, result.back(), least_bytes));
    if (joins) {
      append(result.back(), unit);
    } else {
      result.push_back(std::move(unit));
    }
  }
  return result;
}

// Adds the experts of a module to the unit that has other parameters of it, or
// makes a unit of them at their place in the order of registration.
std::vector<UnitMembers> with_experts(
    std::vector<UnitMembers> units,
    const std::vector<UnitMembers>& of_experts,
    Modules& modules,
    const std::vector<ParameterInfo>& parameters) {
  std::map<std::string, std::size_t> unit_of;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    for (const std::size_t i : units[unit].parameters) {
      unit_of.emplace(modules.of(parameters[i].name), unit);
    }
  }
  for (const UnitMembers& experts : of_experts) {
    const auto place = unit_of.find(experts.name);
    if (place == unit_of.end()) {
      units.push_back(experts);
    } else {
      append(units[place->second], experts);
    }
  }
  std::ranges::stable_sort(units, {}, [](const UnitMembers& unit) {
    return unit.parameters.front();
  });
  return units;
}

Bucket& bucket_in(UnitPlan& unit, const ParameterInfo& parameter) {
  for (Bucket& bucket : unit.buckets) {
    if (training::same_kind(bucket, parameter)) {
      return bucket;
    }
  }
  return unit.buckets.emplace_back(training::bucket_for(parameter));
}

} // namespace

std::ostream& operator<<(std::ostream& out, const std::vector<UnitPlan>& plan) {
  out << plan.size() << " units";
  for (const UnitPlan& unit : plan) {
    std::size_t bytes = 0;
    std::size_t parameters = 0;
    for (const Bucket& bucket : unit.buckets) {
      bytes += bucket.bytes();
      parameters += bucket.entries.size();
    }
    out << "\n  " << unit.name << ": " << parameters << " parameters, " << bytes
        << " bytes" << (unit.resident ? ", resident" : "");
  }
  return out;
}

// Sizes of distributed parameters differ by rank, and so do sizes and numbers
// of experts: they must not decide where units of the others begin. So each
// kind gets a pass of its own.
std::vector<UnitMembers> members_by_size(
    const std::vector<ParameterInfo>& parameters, std::size_t bytes) {
  enum class Kind { Same, Distributed, Expert };
  const auto kind_of = [](const ParameterInfo& parameter) {
    return parameter.is_expert     ? Kind::Expert
        : parameter.is_distributed ? Kind::Distributed
                                   : Kind::Same;
  };
  std::vector<UnitMembers> units;
  for (const Kind kind : {Kind::Same, Kind::Distributed, Kind::Expert}) {
    std::optional<std::size_t> room; // none: no unit of this kind yet
    for (std::size_t i = parameters.size(); i-- > 0;) {
      const ParameterInfo& parameter = parameters[i];
      if (!parameter.trainable || kind_of(parameter) != kind) {
        continue;
      }
      if (!room || parameter.bytes() > *room) {
        units.push_back({.name = parameter.name});
        room = bytes;
      }
      units.back().parameters.push_back(i);
      *room -= std::min(*room, parameter.bytes());
    }
  }
  return units;
}

std::vector<UnitMembers> members_by_module(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::string>& boundaries,
    std::size_t least_bytes) {
  Modules modules(boundaries);
  // Ranks may have other experts, or none: they join the units that the other
  // parameters make.
  std::vector<UnitMembers> units;
  std::vector<UnitMembers> of_experts;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& some = parameters[i].is_expert ? of_experts : units;
    const std::string module = modules.of(parameters[i].name);
    auto place = std::ranges::find(some, module, &UnitMembers::name);
    if (place == some.end()) {
      place = some.insert(place, {.name = module});
    }
    place->parameters.push_back(i);
  }
  modules.check_all_used();
  units = without_small(std::move(units), parameters, least_bytes);
  return with_experts(std::move(units), of_experts, modules, parameters);
}

std::vector<UnitMembers> members_by_fusion(
    const std::vector<ParameterInfo>& parameters,
    const std::function<
        std::vector<UnitMembers>(const std::vector<ParameterInfo>&)>& others) {
  std::vector<std::size_t> all(parameters.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto sets = training::fusion_sets(parameters, all);
  std::vector<ParameterInfo> rest;
  for (const std::size_t i : sets.rest) {
    rest.push_back(parameters[i]);
  }
  std::vector<UnitMembers> units;
  if (!rest.empty()) {
    units = others(rest);
  }
  for (UnitMembers& unit : units) {
    for (std::size_t& index : unit.parameters) {
      index = sets.rest[index];
    }
  }
  for (const auto& together : sets.together) {
    units.push_back({parameters[together.front()].name, together});
  }
  return units;
}

UnitPlan plan_unit(
    const std::vector<ParameterInfo>& parameters,
    const UnitMembers& members,
    int num_ranks) {
  UnitPlan unit{.name = members.name};
  for (const std::size_t i : members.parameters) {
    training::append(bucket_in(unit, parameters[i]), i, parameters[i]);
  }
  for (Bucket& bucket : unit.buckets) {
    // Equal slices of whole cache lines, as all_gather and reduce_scatter need
    // equal sizes; the end of the last slices may be padding.
    const std::int64_t slice = (bucket.count + num_ranks - 1) / num_ranks;
    bucket.count = num_ranks * training::whole_lines(slice, bucket.element);
  }
  return unit;
}

// Slices ignore the borders of parameters: the pieces of a rank are the
// intersections of its slice with the entries. A parameter may span several
// ranks.
std::vector<Piece> pieces_of(const Bucket& bucket, int rank, int num_ranks) {
  const std::int64_t part = bucket.count / num_ranks;
  const std::int64_t first = part * rank;
  std::vector<Piece> pieces;
  for (const BucketEntry& entry : bucket.entries) {
    const std::int64_t begin = std::max(entry.begin, first);
    const std::int64_t end = std::min(entry.begin + entry.count, first + part);
    if (begin < end) {
      pieces.push_back(
          {entry.parameter, begin - entry.begin, begin - first, end - begin});
    }
  }
  return pieces;
}

} // namespace argosy::sharding
