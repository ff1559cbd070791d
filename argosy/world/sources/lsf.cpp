// Tasks that LSF's jsrun started.

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

// LSB_MCPU_HOSTS is "host slots host slots ..."; with jsrun it starts with the
// batch node, which runs no tasks.
std::optional<std::string> first_host(const Environment& env) {
  for (const char* name : {"LSB_MCPU_HOSTS", "LSB_HOSTS"}) {
    for (const std::string& word : split(env.get(name, ""), ' ')) {
      if (!word.empty() && !parse_int(word) && !word.starts_with("batch")) {
        return word;
      }
    }
  }
  return std::nullopt;
}

std::optional<Endpoint> lsf_store(
    const LaunchInfo& info, const Environment& env) {
  const auto port = job_port(find_int(env, "LSB_JOBID", 0).value_or(0));
  if (info.knows_local && info.local_size == info.size) {
    return Endpoint{"127.0.0.1", port};
  }
  const auto host = first_host(env);
  return host ? std::optional(Endpoint{*host, port}) : std::nullopt;
}

Claim read_lsf(const Context& context) {
  const Environment& env = context.env;
  LaunchInfo info;
  set_rank(info, env, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE");
  set_local(info, env, "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE");
  if (const auto job = env.find("LSB_JOBID")) {
    info.run_id = str("lsf-", *job);
  }
  set_store(info, env, lsf_store(info, env));
  check_store(info, "MASTER_ADDR (or LSB_MCPU_HOSTS)");
  return {info, {}};
}

} // namespace

Source lsf_source() {
  return {
      .name = "lsf",
      .level = Level::Scheduler,
      .marks = {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
      .needs = {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
      .read = read_lsf};
}

} // namespace argosy::world
