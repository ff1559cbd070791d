// `argosy env`: shows which launch environment applies here, and why.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/argosy/commands.h"
#include "argosy/common/error.h"
#include "argosy/world/adopt.h"
#include "argosy/world/job_key.h"

namespace argosy::cli {

namespace {

using State = Finding::State;
using nlohmann::json;

std::string place_text(const LaunchInfo& info) {
  if (!info.store_url.empty()) {
    return str(
        "at ",
        info.store_url,
        info.serves_store ? ", which this process serves" : "");
  }
  if (info.address_exchange != AddressExchange::None) {
    return str(
        "at an address that rank 0 publishes by ",
        to_string(info.address_exchange));
  }
  return "nobody: there are no other ranks";
}

void print_result(const LaunchInfo& info) {
  const std::string rank =
      info.rank_by_arrival ? "?" : std::to_string(info.rank);
  std::cout << "You are " << to_string(info.role) << " " << rank << "/"
            << info.size
            << (info.source == "single" ? ", a world of one.\n"
                                        : ", as " + info.source + " says.\n");
  if (info.rank_by_arrival) {
    std::cout << "  rank   assigned by the scheduler on arrival\n";
  }
  if (info.knows_local) {
    std::cout << "  host   rank " << info.local_rank << "/" << info.local_size
              << " on node " << info.node_rank << "/" << info.num_nodes << "\n";
  } else {
    std::cout << "  host   not given; the ranks determine it when they meet\n";
  }
  std::cout << "  meets  " << place_text(info) << "\n";
  if (info.num_servers > 0 || info.role != Role::Worker) {
    std::cout << "  job    " << info.num_workers << " workers, "
              << info.num_servers << " servers\n";
  }
  if (!info.run_id.empty()) {
    std::cout << "  run    " << info.run_id << ", restart "
              << info.restart_count << "\n";
  }
}

// Sources that apply come first, the many absent ones after them.
void print_table(std::vector<Finding> findings) {
  std::stable_partition(
      findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.state != State::Absent;
      });
  std::cout << std::left << std::setw(19) << "SOURCE" << std::setw(10)
            << "STATE"
            << "WHY\n";
  for (const Finding& finding : findings) {
    std::cout << std::setw(19) << finding.source << std::setw(10)
              << to_string(finding.state) << finding.reason << "\n";
  }
  std::cout << "\n";
}

json endpoints_json(const std::vector<Endpoint>& endpoints) {
  json list = json::array();
  for (const Endpoint& endpoint : endpoints) {
    list.push_back(endpoint.text());
  }
  return list;
}

json info_json(const LaunchInfo& info) {
  return {
      {"source", info.source},
      {"role", to_string(info.role)},
      {"rank", info.rank},
      {"size", info.size},
      {"local_rank", info.local_rank},
      {"local_size", info.local_size},
      {"node_rank", info.node_rank},
      {"num_nodes", info.num_nodes},
      {"knows_local", info.knows_local},
      {"num_workers", info.num_workers},
      {"num_servers", info.num_servers},
      {"rank_by_arrival", info.rank_by_arrival},
      {"node_id", info.node_id},
      {"store_url", info.store_url},
      {"serves_store", info.serves_store},
      {"exchange", to_string(info.address_exchange)},
      {"run_id", info.run_id},
      {"restart_count", info.restart_count},
      {"worker_endpoints", endpoints_json(info.worker_endpoints)},
      {"server_endpoints", endpoints_json(info.server_endpoints)},
  };
}

void print_adoption_json(const Adoption& adoption) {
  json document = {{"sources", json::array()}, {"notes", adoption.notes}};
  for (const Finding& finding : adoption.findings) {
    document["sources"].push_back(
        {{"source", finding.source},
         {"state", to_string(finding.state)},
         {"reason", finding.reason}});
  }
  if (adoption.error.empty()) {
    document["adopted"] = info_json(adoption.info);
  } else {
    document["error"] = adoption.error;
  }
  // Values of variables may contain any bytes.
  std::cout << document.dump(2, ' ', false, json::error_handler_t::replace)
            << "\n";
}

void print_text(const Adoption& adoption) {
  print_table(adoption.findings);
  for (const std::string& note : adoption.notes) {
    std::cout << "Note: " << note << ".\n";
  }
  if (adoption.error.empty()) {
    print_result(adoption.info);
  }
}

} // namespace

int env(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Shows which launch environment a program would adopt here, and why.\n"
      "Exits with 2 if the program would refuse to start.",
      "argosy env");
  bool as_json = false;
  app.add_flag("--json", as_json, "Print JSON");
  try {
    // CLI11 expects the words in reverse order.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Environment environment = Environment::of_process();
  const Adoption adoption =
      examine(environment, {.job_key = local_job_key(environment)});
  as_json ? print_adoption_json(adoption) : print_text(adoption);
  if (!adoption.error.empty()) {
    std::cerr << "argosy: " << adoption.error << "\n";
    return 2;
  }
  return 0;
}

} // namespace argosy::cli
