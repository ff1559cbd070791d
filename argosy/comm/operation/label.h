#pragma once

#include <string>
#include <string_view>

namespace argosy {

// What an operation is for, in words that a user knows: "gradients, bucket 0
// (fc.weight ...)". Errors, flight records and traces show it.
//
// A label is a pointer to a text that the process keeps for ever, so that an
// operation carries it for nothing. Make it once, not for each operation: the
// constructor looks the text up among all labels.
class OpLabel {
 public:
  OpLabel() = default; // none
  explicit OpLabel(std::string_view text);

  bool empty() const { return text_ == nullptr; }
  // Empty if there is none.
  const std::string& text() const;

  bool operator==(const OpLabel&) const = default;

 private:
  const std::string* text_ = nullptr;
};

// While it lives, the operations that this thread issues have this label; the
// innermost scope decides. A scope without a label changes nothing.
//
//   static const OpLabel kLabel("validation loss");
//   const LabelScope scope(kLabel);
//   all_reduce(loss);
class LabelScope {
 public:
  explicit LabelScope(OpLabel label);
  ~LabelScope();
  LabelScope(const LabelScope&) = delete;
  LabelScope& operator=(const LabelScope&) = delete;

  // Of this thread's innermost scope.
  static OpLabel current();

 private:
  const OpLabel outer_;
};

} // namespace argosy
