#include "argosy/world/notes.h"

#include <utility>

#include "argosy/common/thread_context.h"

namespace argosy {

namespace {

struct NotesOfThread {
  std::shared_ptr<Notes> notes;
};

} // namespace

int Notes::count(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return counts_[name]++;
}

void Notes::keep(const std::string& name, const std::string& text) {
  const std::lock_guard lock(mutex_);
  kept_[name] = text;
}

std::string Notes::kept(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(name);
  return found == kept_.end() ? "" : found->second;
}

std::shared_ptr<Notes> current_notes() {
  return of_thread<NotesOfThread>().notes;
}

void bind_notes(std::shared_ptr<Notes> notes) {
  of_thread<NotesOfThread>().notes = std::move(notes);
}

} // namespace argosy
