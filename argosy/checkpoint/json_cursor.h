#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/checkpoint/hash.h"

namespace argosy::checkpoint {

// Reads a JSON text of a known structure, value by value, without a tree of
// all of it: memory does not exceed what the caller makes of the values. Throws
// CheckpointError that names the file, the place ("tensors[3].shape") and the
// byte. The text must outlive it.
class JsonCursor {
 public:
  // `path`: of the file, for messages.
  JsonCursor(std::string_view text, std::string path);

  // Reads an object: calls `f` with each key; it must read the value. Does not
  // look for duplicates.
  void object(const std::function<void(const std::string& key)>& f);

  // Reads an object that has some of these fields, each at most once: calls `f`
  // with the index of the name; it must read the value. Returns the set of
  // indices as bits. Refuses other fields unless `skip_others`.
  std::uint32_t fields(
      std::initializer_list<std::string_view> names,
      const std::function<void(std::size_t index)>& f,
      bool skip_others = false);

  // Fails unless the bits of all of the first `count` names are set.
  void require(
      std::uint32_t found,
      std::initializer_list<std::string_view> names,
      std::size_t count) const;

  // Reads an array: calls `f` for each element; it must read it.
  void array(const std::function<void()>& f);

  std::string string();
  // A string without escapes: a part of the text.
  std::string_view plain_string();
  Hash128 hash();
  // An integer in [least, most].
  std::int64_t integer(std::int64_t least, std::int64_t most);
  // Array of integers that are not negative, at most 64.
  Shape shape();
  // A whole object, at most 64 levels deep, without duplicate keys.
  nlohmann::json json_object();

  // Fails unless only white space follows.
  void end();

  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Step {
    std::string key;         // of an object, or
    std::int64_t index = -1; // in an array
  };

  char peek(); // the next character that is no white space; '\0' at the end
  void expect(char c);
  bool accept(char c);
  // The text of the next string with its quotes. `plain`: whether it stands for
  // itself.
  std::string_view string_literal(bool& plain);
  std::string_view raw_value();
  std::string place() const;

  std::string_view text_;
  std::string path_;
  std::size_t at_ = 0;
  std::vector<Step> steps_;
};

// The bytes of a tensor, at most 2^63 - 1, computed without overflow; fails if
// there are more. Sizes of 0 count as 1 for the limit.
std::uint64_t checked_bytes(
    const Shape& shape, DType dtype, const JsonCursor& cursor);

} // namespace argosy::checkpoint
