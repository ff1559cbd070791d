#pragma once

#include <optional>
#include <string>

namespace argosy::comm::message {

// Where the members of a group leave word for each other when messages do not
// get through any more. Never blocks for long; throws when it cannot be
// reached.
class Board {
 public:
  virtual ~Board() = default;

  virtual void set(const std::string& key, const std::string& text) = 0;
  virtual std::optional<std::string> get(const std::string& key) = 0;

  // Sets the key unless it is set; returns what it holds then.
  virtual std::string claim(
      const std::string& key, const std::string& text) = 0;
};

} // namespace argosy::comm::message
