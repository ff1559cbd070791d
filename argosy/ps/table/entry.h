#pragma once

#include <string>
#include <string_view>

namespace argosy::ps {

// Which ids a sparse table admits, and what feeds their shows and clicks. An id
// that is not admitted has no row: pulls give zeros, pushes are counted and
// dropped.
struct Entry {
  enum class Kind {
    None,        // every id
    CountFilter, // once its shows (pushes, if there are no shows) reach `count`
    Probability, // with this chance at each push
    ShowClick,   // every id; the worker takes shows and clicks from variables
  };

  Kind kind = Kind::None;
  long long count = 0;
  double probability = 1;
  std::string show_name;
  std::string click_name;

  bool operator==(const Entry&) const = default;
};

// Throw InvalidArgument unless count >= 0, 0 < probability < 1, names are not
// empty and have no ':'.
Entry count_filter_entry(long long count);
Entry probability_entry(double probability);
Entry show_click_entry(std::string show_name, std::string click_name);

// "count_filter_entry:10", "probability_entry:0.1", "show_click_entry:s:c",
// "none"; parse_entry() throws InvalidArgument for anything else.
std::string to_string(const Entry& entry);
Entry parse_entry(std::string_view text);

} // namespace argosy::ps
