#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace argosy::fs {

// The texts of all elements with this name, in order, entities decoded in those
// that hold text only: enough for the flat answers of S3. Elements of the same
// name are not nested there. Returns none for what is not XML.
std::vector<std::string> xml_texts(
    std::string_view document, std::string_view name);

// The first of them; "" if there is none.
std::string xml_text(std::string_view document, std::string_view name);

// "a<b" -> "a&lt;b".
std::string xml_escape(std::string_view text);

// Decodes the five named entities and numeric ones.
std::string xml_unescape(std::string_view text);

} // namespace argosy::fs
