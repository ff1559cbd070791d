#include "argosy/comm/group_lists.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::comm {

namespace {

using Bytes = std::vector<std::uint8_t>;

// Of the rank that called first: its rank, and what it asked for.
constexpr char kFirst[] = "first list";
constexpr char kDifference[] = "lists differ";

std::string text_of(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

Bytes bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string what_of(const GroupList& list) {
  return str_format(
      "ranks [{}] with backend \"{}\"", ranges_text(list.ranks), list.backend);
}

} // namespace

void check_same_list(c10d::Store& group_store, const GroupList& own) {
  const std::string ours = what_of(own);
  const std::string first = text_of(
      group_store.compareSet(kFirst, {}, bytes_of(str(own.rank, " ", ours))));
  const std::size_t space = first.find(' ');
  const std::string theirs = first.substr(space + 1);
  if (theirs == ours) {
    return;
  }
  const std::string text = str_format(
      "[comm.new_group] the ranks disagree about group {}: rank {} makes it of "
      "{}, rank {} of {}. All ranks of the world must call new_group() in the "
      "same order with the same arguments, members or not",
      own.id,
      first.substr(0, space),
      theirs,
      own.rank,
      ours);
  group_store.set(kDifference, bytes_of(text));
  throw InvalidArgument(text);
}

std::optional<std::string> difference_of_lists(c10d::Store& group_store) {
  if (!group_store.check({kDifference})) {
    return std::nullopt;
  }
  return text_of(group_store.get(kDifference));
}

} // namespace argosy::comm
