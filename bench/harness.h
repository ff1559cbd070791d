#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

// Common to all benches: flags, interleaved rounds, table and JSON output.
namespace argosy::bench {

struct Flags {
  bool quick = false; // finish within 40 s
  bool json = false;  // print one JSON object instead of a table
};

// Throws InvalidArgument for unknown flags.
Flags parse_flags(int argc, char** argv);

enum class Better { Lower, Higher };

// A contestant: its name ("ours" or a peer's) and a function that runs it and
// returns the figure.
using Contestant = std::pair<std::string, std::function<double()>>;

struct Row {
  std::string what;
  std::string unit;
  Better better = Better::Lower;
  double ours = 0;
  std::map<std::string, double> peers;
  nlohmann::json extra = nlohmann::json::object(); // additional fields

  // The factor by which ours is better than a peer: above 1 is better.
  double ratio(const std::string& peer) const;
};

// Runs all contestants once per round, in turn, and keeps each one's best, so
// that a disturbance of the machine affects all of them.
Row race(
    const std::string& what,
    const std::string& unit,
    Better better,
    int rounds,
    const std::vector<Contestant>& contestants);

template <typename F>
double milliseconds_of(const F& f) {
  const auto began = std::chrono::steady_clock::now();
  f();
  const std::chrono::duration<double, std::milli> passed =
      std::chrono::steady_clock::now() - began;
  return passed.count();
}

class Report {
 public:
  Report(std::string subject, Flags flags);

  // Prints the row at once.
  void add(Row row);

  // Prints the JSON object, if requested.
  void finish() const;

 private:
  std::string subject_;
  Flags flags_;
  std::vector<Row> rows_;
};

} // namespace argosy::bench
