#include "argosy/common/rank_label.h"

namespace argosy {

namespace {

struct Label {
  int rank = 0;
  int size = 0; // 0: no label
};

thread_local Label label;

} // namespace

std::string rank_label() {
  if (label.size == 0) {
    return "";
  }
  return std::to_string(label.rank) + "/" + std::to_string(label.size);
}

void set_rank_label(int rank, int size) {
  label = {rank, size};
}

} // namespace argosy
