#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::testing {

// The inodes of a process's sockets.
inline std::set<std::string> socket_inodes(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code gone;
  const std::string folder = str("/proc/", pid, "/fd");
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone)) {
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    const std::string text = gone ? "" : target.string();
    if (text.starts_with("socket:[")) {
      inodes.insert(text.substr(8, text.size() - 9));
    }
  }
  return inodes;
}

// Where a process listens: the hexadecimal word of /proc/net/tcp or tcp6 for
// the address, and the port.
struct Listener {
  std::string word;
  int port = 0;

  auto operator<=>(const Listener&) const = default;
};

inline std::vector<Listener> listeners_of(pid_t pid) {
  const auto inodes = socket_inodes(pid);
  std::vector<Listener> found;
  for (const char* name : {"tcp", "tcp6"}) {
    const auto table = read_file(str("/proc/", pid, "/net/", name));
    for (const std::string& line : split(table.value_or(""), '\n')) {
      std::vector<std::string> words;
      for (const std::string& word : split(line, ' ')) {
        if (!word.empty()) {
          words.push_back(word);
        }
      }
      constexpr std::size_t kState = 3;
      constexpr std::size_t kInode = 9;
      if (words.size() > kInode && words[kState] == "0A" &&
          inodes.contains(words[kInode])) {
        const std::size_t colon = words[1].find(':');
        found.push_back(
            {words[1].substr(0, colon),
             std::stoi(words[1].substr(colon + 1), nullptr, 16)});
      }
    }
  }
  return found;
}

inline std::vector<std::string> listening_addresses(pid_t pid) {
  std::vector<std::string> addresses;
  for (const Listener& each : listeners_of(pid)) {
    addresses.push_back(each.word);
  }
  return addresses;
}

// 127.0.0.0/8 (the kernel writes the bytes in reverse), ::1, and 127.0.0.0/8
// as an IPv6 address.
inline bool is_loopback_word(const std::string& word) {
  const bool v4 = word.size() == 8 && word.ends_with("7F");
  const bool mapped =
      word.starts_with("0000000000000000FFFF0000") && word.ends_with("7F");
  return v4 || mapped || word == "00000000000000000000000001000000";
}

// The processes that a process has started, and theirs.
inline std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<pid_t> all;
  std::error_code gone;
  for (const auto& task :
       std::filesystem::directory_iterator(str("/proc/", pid, "/task"), gone)) {
    const auto text = read_file(task.path() / "children");
    for (const std::string& word : split(text.value_or(""), ' ')) {
      if (const auto child = parse_int(word)) {
        all.push_back(static_cast<pid_t>(*child));
        const auto theirs = descendants_of(static_cast<pid_t>(*child));
        all.insert(all.end(), theirs.begin(), theirs.end());
      }
    }
  }
  return all;
}

} // namespace argosy::testing
