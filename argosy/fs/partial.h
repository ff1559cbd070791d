#pragma once

#include <string>
#include <string_view>

// Names of files that are not committed yet.
namespace argosy::fs {

// "/a/b" -> "/a/.b.<16 random hex digits>.argosy-partial".
std::string partial_path(std::string_view path);

// Whether the last component of a path is such a name.
bool is_partial(std::string_view path);

// 16 random hex digits, different in every process and call.
std::string random_id();

} // namespace argosy::fs
