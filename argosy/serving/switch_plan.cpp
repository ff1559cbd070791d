#include "argosy/serving/switch_plan.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::serving {

SwitchPlan plan_switch(
    std::vector<ExportName> listed, std::optional<std::uint64_t> current) {
  std::ranges::sort(listed, {}, [](const ExportName& name) {
    return std::pair(name.number, !name.is_base());
  });
  SwitchPlan plan;
  const auto base =
      std::find_if(listed.rbegin(), listed.rend(), [](const ExportName& name) {
        return name.is_base();
      });
  std::uint64_t at = current.value_or(0);
  if (base != listed.rend() && base->number > at) {
    plan.open.push_back(*base);
    at = base->number;
  } else if (!current) {
    if (!listed.empty()) {
      plan.problem = "there are deltas, but no base";
    }
    return plan;
  }
  for (const ExportName& name : listed) {
    if (name.number <= at) {
      continue;
    }
    if (name.number != at + 1) {
      plan.problem = str_format(
          "{} is missing, though {} is there",
          file_name({at + 1, ExportKind::Delta}),
          file_name(name));
      break;
    }
    plan.open.push_back(name);
    at = name.number;
  }
  return plan;
}

} // namespace argosy::serving
