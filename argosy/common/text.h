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

// Without white space at both ends.
std::string_view trim(std::string_view text);

// The whole text as a decimal integer, or nothing.
std::optional<long long> parse_int(std::string_view text);

// The whole text as a finite decimal number, or nothing.
std::optional<double> parse_number(std::string_view text);

// "30", "30s", "500ms", "2m" or "1h", in seconds; nothing for other text.
std::optional<double> parse_seconds(std::string_view text);

// The first candidate that starts with `text`, else the one that differs from
// it by the fewest edits, if it is near enough to be what was meant.
std::optional<std::string> nearest(
    std::string_view text, const std::vector<std::string>& candidates);

// {0, 1, 2, 5} -> "0-2, 5": for error messages that name ranks.
std::string ranges_text(const std::vector<int>& sorted);

} // namespace argosy
