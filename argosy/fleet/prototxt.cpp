#include "argosy/fleet/prototxt.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::fleet {

namespace {

using nlohmann::json;

constexpr int kMostLevels = 50; // of messages

// Reads
//
//   fields = { name [":"] ( value | "[" values "]" | "{" fields "}" ) }
//
// with comments from # to the end of the line. Cost: one pass.
class Parser {
 public:
  Parser(
      std::string_view text,
      const std::string& where,
      const std::function<bool(const std::string&)>& is_list)
      : text_(text), where_(where), is_list_(is_list) {}

  json document() {
    json result = fields("");
    check(at_ == text_.size(), "a name");
    return result;
  }

 private:
  json fields(const std::string& prefix) {
    json object = json::object();
    skip();
    while (at_ < text_.size() && text_[at_] != '}') {
      const std::string name = word();
      check(!name.empty(), "a name");
      accept(':');
      add(object, name, field(prefix + name), is_list_(prefix + name));
      accept(','); // either may separate fields
      accept(';');
    }
    return object;
  }

  json field(const std::string& path) {
    if (accept('{')) {
      check(++level_ <= kMostLevels, "fewer messages inside of each other");
      json inner = fields(path + '.');
      check(accept('}'), "}");
      --level_;
      return inner;
    }
    if (!accept('[')) {
      return value();
    }
    json list = json::array();
    while (!accept(']')) {
      list.push_back(value());
      check(accept(',') || (at_ < text_.size() && text_[at_] == ']'), ", or ]");
    }
    return list;
  }

  // A field that comes again is a repeated one.
  static void add(
      json& object, const std::string& name, json value, bool is_list) {
    const bool is_new = !object.contains(name);
    if (is_new && (!is_list || value.is_array())) {
      object[name] = std::move(value);
      return;
    }
    json& slot = object[name];
    if (is_new) {
      slot = json::array();
    } else if (!slot.is_array()) {
      slot = json::array({slot});
    }
    slot.push_back(std::move(value));
  }

  json value() {
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      return quoted();
    }
    const std::string token = word();
    check(!token.empty(), "a value");
    if (token == "true" || token == "false") {
      return token == "true";
    }
    if (const auto integer = parse_int(token)) {
      return *integer;
    }
    if (const auto number = parse_number(token)) {
      return *number;
    }
    return token; // of an enum
  }

  std::string quoted() {
    const char quote = text_[at_++];
    std::string result;
    while (at_ < text_.size() && text_[at_] != quote) {
      at_ += text_[at_] == '\\' ? 1 : 0;
      check(at_ < text_.size(), "the end of a string");
      result += text_[at_++];
    }
    check(at_ < text_.size(), "the end of a string");
    ++at_;
    skip();
    return result;
  }

  // Of a name, a number or an enum.
  std::string word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
            std::string_view("_.+-").find(text_[at_]) != std::string::npos)) {
      ++at_;
    }
    const std::string found(text_.substr(begin, at_ - begin));
    skip();
    return found;
  }

  bool accept(char wanted) {
    if (at_ == text_.size() || text_[at_] != wanted) {
      return false;
    }
    ++at_;
    skip();
    return true;
  }

  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else {
        return;
      }
    }
  }

  void check(bool holds, const char* expected) const {
    ARGOSY_CHECK(
        holds,
        "[fleet.strategy] {}: neither JSON nor a prototxt, in line {} expected "
        "{}",
        where_,
        1 + std::count(text_.begin(), text_.begin() + at_, '\n'),
        expected);
  }

  const std::string_view text_;
  const std::string& where_;
  const std::function<bool(const std::string&)>& is_list_;
  std::size_t at_ = 0;
  int level_ = 0;
};

} // namespace

std::string prototxt_to_json(
    std::string_view text,
    const std::string& where,
    const std::function<bool(const std::string& path)>& is_list) {
  const json document = Parser(text, where, is_list).document();
  try {
    return document.dump();
  } catch (const json::exception& error) { // no UTF-8
    throw InvalidArgument(str("[fleet.strategy] ", where, ": ", error.what()));
  }
}

} // namespace argosy::fleet
