#include "argosy/launch/hang_share.h"

#include <functional>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

int number_in(const std::string& text) {
  return static_cast<int>(parse_int(text).value_or(0));
}

// Runs a store operation for a notice, which is not worth an error.
void for_notice(const std::function<void(Deadline)>& call) {
  try {
    call(Deadline::after(std::chrono::seconds(1)));
  } catch (const Error& error) {
    log::warn("[launch.hang] other nodes cannot be asked: ", error.what());
  }
}

} // namespace

void StoreHangShare::note_asks(const std::string& value) {
  last_ask_ = number_in(value);
}

int StoreHangShare::ask() {
  int number = 0;
  for_notice([&](Deadline deadline) {
    number = static_cast<int>(room_.kv.add(room_.asks, 1, deadline));
  });
  return number;
}

int StoreHangShare::last_ask(bool look) {
  if (look) {
    try {
      const Deadline deadline = Deadline::after(std::chrono::seconds(1));
      note_asks(room_.kv.get(room_.asks, deadline).value_or("0"));
    } catch (const Error& error) {
      // No warning: whoever asks gets one, and looks may be many.
      log::debug("[launch.hang] ", error.what());
    }
  }
  return last_ask_;
}

// The value is the number of the ask in a line, and then the records.
void StoreHangShare::answer(int ask, const std::string& records) {
  for_notice([&](Deadline deadline) {
    room_.kv.set(
        str(room_.answers, room_.node),
        str(ask, "\n", records),
        deadline,
        room_.lease);
  });
}

HangShare::Answers StoreHangShare::answers_to(int ask) {
  Answers answers;
  const std::string own = str(room_.answers, room_.node);
  for_notice([&](Deadline deadline) {
    for (const auto& [name, text] : room_.kv.list(room_.answers, deadline)) {
      const auto line = text.find('\n');
      if (name != own && line != std::string::npos &&
          number_in(text.substr(0, line)) >= ask) {
        answers.records.push_back(text.substr(line + 1));
      }
    }
  });
  answers.is_complete =
      static_cast<int>(answers.records.size()) + 1 >= room_.num_nodes;
  return answers;
}

} // namespace argosy::launch
