#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace argosy::ps {

// Texts that grow side by side and are read one after another: in memory while
// they are small, otherwise in an unnamed file of the temporary folder. So a
// thousand files can be written with one open at a time. Throws SystemError.
class Spool {
 public:
  explicit Spool(std::size_t num_texts, std::size_t max_memory = 64u << 20);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // The text's end, to be appended to; call grown() afterwards.
  std::string& tail(std::size_t text) { return tails_[text]; }
  void grown(std::size_t bytes);

  // Calls f with the parts of a text, in order.
  void read(
      std::size_t text, const std::function<void(std::string_view)>& f) const;

 private:
  struct Extent {
    std::size_t offset;
    std::size_t bytes;
  };
  void spill();

  std::size_t max_memory_;
  std::size_t in_memory_ = 0;
  std::vector<std::string> tails_;
  std::vector<std::vector<Extent>> extents_; // by text
  int file_ = -1;
  std::size_t file_bytes_ = 0;
};

} // namespace argosy::ps
