#include "argosy/comm/operation/label.h"

#include <functional>
#include <mutex>
#include <set>

#include "argosy/common/thread_context.h"

namespace argosy {

namespace {

// Labels name parts of a program, so they are few. One that makes them up all
// the time gets no more of them.
constexpr std::size_t kMostTexts = 1 << 16;

struct CurrentLabel {
  OpLabel label;
};

OpLabel& innermost_label() {
  return of_thread<CurrentLabel>().label;
}

// Never destroyed: records of operations refer to the texts until the end of
// the process. It is a table of constants, not state.
const std::string* kept(std::string_view text) {
  static std::mutex mutex;
  static auto* const texts = new std::set<std::string, std::less<>>();
  const std::lock_guard lock(mutex);
  const auto found = texts->find(text);
  if (found != texts->end()) {
    return &*found;
  }
  return texts->size() < kMostTexts ? &*texts->emplace(text).first : nullptr;
}

} // namespace

OpLabel::OpLabel(std::string_view text)
    : text_(text.empty() ? nullptr : kept(text)) {}

const std::string& OpLabel::text() const {
  static const std::string none;
  return text_ == nullptr ? none : *text_;
}

LabelScope::LabelScope(OpLabel label) : outer_(innermost_label()) {
  if (!label.empty()) {
    innermost_label() = label;
  }
}

LabelScope::~LabelScope() {
  innermost_label() = outer_;
}

OpLabel LabelScope::current() {
  return innermost_label();
}

} // namespace argosy
