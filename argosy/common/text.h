#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace argosy {

// "a,b,,c" -> {"a", "b", "", "c"}; "" -> {}.
std::vector<std::string> split(std::string_view text, char separator);

std::string join(
    const std::vector<std::string>& parts, std::string_view separator);

// Removes white space at both ends.
std::string_view trim(std::string_view text);

// Parses the whole text as a decimal integer; nullopt if it is none.
std::optional<long long> parse_int(std::string_view text);

// Parses the whole text as a finite decimal number; nullopt if it is none.
std::optional<double> parse_number(std::string_view text);

// Parses "30", "30s", "500ms", "2m" or "1h" to seconds; nullopt otherwise.
std::optional<double> parse_seconds(std::string_view text);

// Returns the first candidate that starts with `text`, else the one with the
// smallest edit distance, if it is close enough to be a likely typo.
std::optional<std::string> nearest(
    std::string_view text, const std::vector<std::string>& candidates);

// Two digits for each byte; of_hex() returns nullopt for anything else.
std::string to_hex(std::string_view bytes);
std::optional<std::string> of_hex(std::string_view digits);

// {0, 1, 2, 5} -> "0-2, 5": for error messages that name ranks.
std::string ranges_text(const std::vector<int>& sorted);

} // namespace argosy
