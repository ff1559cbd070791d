#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

// What all benches share: flags, interleaved rounds, the table and the JSON.
namespace argosy::bench {

struct Flags {
  bool quick = false; // ends within 40 s
  bool json = false;  // one object on standard output, no table
};

// Throws InvalidArgument for unknown words.
Flags parse_flags(int argc, char** argv);

enum class Better { Lower, Higher };

// One contestant: its name ("ours" or a peer's) and a run that returns its
// figure.
using Contestant = std::pair<std::string, std::function<double()>>;

struct Row {
  std::string what;
  std::string unit;
  Better better = Better::Lower;
  double ours = 0;
  std::map<std::string, double> peers;
  nlohmann::json extra = nlohmann::json::object(); // further fields

  // How many times better than a peer: 1 is equal, above 1 ours is better.
  double ratio(const std::string& peer) const;
};

// Runs all contestants once per round, in turn, and keeps each one's best: what
// disturbs the machine for a while disturbs all of them.
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

  // Prints the row to the table at once, for whoever watches.
  void add(Row row);

  // Prints the JSON object, if asked for.
  void finish() const;

 private:
  std::string subject_;
  Flags flags_;
  std::vector<Row> rows_;
};

} // namespace argosy::bench
