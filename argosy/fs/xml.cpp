#include "argosy/fs/xml.h"

#include <array>
#include <charconv>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::fs {

namespace {

constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};

void append_utf8(unsigned code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int num_rest = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::array<unsigned, 4> kLead = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLead[num_rest] | (code >> (6 * num_rest)));
  for (int i = num_rest - 1; i >= 0; --i) {
    out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
  }
}

// Appends what "&name;" stands for; false if it is no entity.
bool append_entity(std::string_view name, std::string& out) {
  if (name.starts_with('#')) {
    const bool is_hex = name.size() > 1 && (name[1] | 0x20) == 'x';
    const std::string_view digits = name.substr(is_hex ? 2 : 1);
    unsigned code = 0;
    const auto end = std::from_chars(
        digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
    if (end.ec != std::errc() || end.ptr != digits.data() + digits.size() ||
        code > 0x10FFFF) {
      return false;
    }
    append_utf8(code, out);
    return true;
  }
  for (const auto& [entity, character] : kEntities) {
    if (name == entity) {
      out += character;
      return true;
    }
  }
  return false;
}

} // namespace

std::string xml_unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = text[i] == '&' ? text.find(';', i) : text.npos;
    if (end != text.npos &&
        append_entity(text.substr(i + 1, end - i - 1), out)) {
      i = end;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string xml_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    std::string_view name;
    for (const auto& [entity, character] : kEntities) {
      name = c == character ? entity : name;
    }
    out += name.empty() ? std::string(1, c) : str("&", name, ";");
  }
  return out;
}

std::vector<std::string> xml_texts(
    std::string_view document, std::string_view name) {
  const std::string open = str("<", name);
  const std::string close = str("</", name, ">");
  std::vector<std::string> texts;
  for (std::size_t at = document.find(open); at != document.npos;
       at = document.find(open, at)) {
    at += open.size();
    const std::size_t tag_end = document.find('>', at);
    if (tag_end == document.npos) {
      break;
    }
    const char next = document[at];
    if (next != '>' && next != ' ' && next != '/') {
      continue; // a longer name
    }
    if (document[tag_end - 1] == '/') {
      texts.emplace_back();
      continue;
    }
    const std::size_t end = document.find(close, tag_end);
    if (end == document.npos) {
      break;
    }
    const auto content = document.substr(tag_end + 1, end - tag_end - 1);
    // Elements inside are taken apart by another call, which decodes.
    texts.push_back(
        content.find('<') == content.npos ? xml_unescape(content)
                                          : std::string(content));
    at = end;
  }
  return texts;
}

std::string xml_text(std::string_view document, std::string_view name) {
  const auto texts = xml_texts(document, name);
  return texts.empty() ? "" : texts.front();
}

} // namespace argosy::fs
