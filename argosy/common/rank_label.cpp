#include "argosy/common/rank_label.h"

#include "argosy/common/thread_context.h"

namespace argosy {

namespace {

// One for each thread, since ranks may be threads of one process.
struct Label {
  int rank = 0;
  int size = 0; // 0: no label
};

} // namespace

std::string rank_label() {
  const Label& label = of_thread<Label>();
  if (label.size == 0) {
    return "";
  }
  return std::to_string(label.rank) + "/" + std::to_string(label.size);
}

std::string without_rank_label(std::string text) {
  const std::string added = "; rank " + rank_label();
  while (text.ends_with(added)) {
    text.resize(text.size() - added.size());
  }
  return text;
}

void set_rank_label(int rank, int size) {
  of_thread<Label>() = {rank, size};
}

} // namespace argosy
