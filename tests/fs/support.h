#pragma once

#include <span>
#include <string>

#include "argosy/fs/transfer.h"

namespace argosy::testing {

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(30));
}

// Bytes that look random.
inline std::string pattern(std::size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  for (char& c : text) {
    seed = seed * 1664525u + 1013904223u;
    c = static_cast<char>(seed >> 24);
  }
  return text;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A folder of any file system, in the words of tests.
class Folder {
 public:
  explicit Folder(fs::Location root) : root_(std::move(root)) {}

  fs::FileSystem& fs() const { return *root_.fs; }
  std::string path(const std::string& name) const {
    return fs::join_path(root_.path, name);
  }
  fs::Location at(const std::string& name) const {
    return {root_.fs, path(name)};
  }
  void put(const std::string& name, std::string_view text) const {
    fs::write_text(at(name), text, soon());
  }
  std::string get(const std::string& name) const {
    return fs::read_text(at(name), soon());
  }
  // Names in a folder; those of folders end with '/'.
  std::vector<std::string> names(const std::string& folder = "") const {
    std::vector<std::string> found;
    for (const fs::Entry& entry : fs().list(path(folder), soon())) {
      found.push_back(entry.name + (entry.is_dir ? "/" : ""));
    }
    return found;
  }

 private:
  fs::Location root_;
};

} // namespace argosy::testing
