#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace argosy::ps {

class ByteReader;
class ByteWriter;

// The last command of each client, so that none is applied twice. A client
// numbers its commands to a region 1, 2, 3, ... and sends them again, with the
// same numbers, when it does not know whether they arrived.
class Sequences {
 public:
  // At most `most` clients are remembered; the one that was silent longest is
  // forgotten first.
  explicit Sequences(std::size_t most = 4096) : most_(most) {}

  enum class Verdict {
    New,
    Duplicate,
    Gap // an earlier push of this client has not arrived
  };

  Verdict judge(std::uint64_t client, std::uint64_t number) const;

  // Records a push that was judged New.
  void record(std::uint64_t client, std::uint64_t number);

  // The number of the last push; 0 if none.
  std::uint64_t last(std::uint64_t client) const;

  void save(ByteWriter& out) const;
  void load(ByteReader& in);

 private:
  struct Entry {
    std::uint64_t number = 0;
    std::uint64_t age = 0; // counts records
  };

  void forget_oldest();

  std::size_t most_;
  std::uint64_t clock_ = 0;
  std::map<std::uint64_t, Entry> entries_;
};

} // namespace argosy::ps
