#include "argosy/comm/flight/record.h"

namespace argosy::comm::flight {

std::string to_string(State state) {
  switch (state) {
    case State::Issued:
      return "issued";
    case State::Started:
      return "started";
    case State::Completed:
      return "completed";
    case State::Failed:
      return "failed";
  }
  return "";
}

} // namespace argosy::comm::flight
